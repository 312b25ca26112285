#include "facade/chat/model_chat.h"

#include <utility>

#include "chat/chat_template_files.h"
#include "chat/pair_prompt.h"
#include "chat/template_dialect.h"
#include "facade/tokenizer/gguf_tokenizer.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

// Returns those texts of a model that may hold a template. `gguf_text` owns the text of a GGUF
// file.
Result<ChatTemplateFiles> template_files(const ModelFiles& files,
                                         std::optional<std::string>& gguf_text) {
  ChatTemplateFiles out;
  if (const auto name = files.gguf_name()) {
    QUIRE_ASSIGN_OR_RETURN(const auto bytes, files.bytes(*name));
    QUIRE_ASSIGN_OR_RETURN(const GgufFile gguf, GgufFile::parse(*name, bytes));
    QUIRE_ASSIGN_OR_RETURN(gguf_text, read_gguf_chat_template(gguf));
    if (gguf_text) out.gguf_chat_template = *gguf_text;
    return out;
  }
  const std::pair<const char*, std::optional<std::string_view>*> sources[] = {
      {"chat_template.jinja", &out.chat_template_jinja},
      {"chat_template.json", &out.chat_template_json},
      {"tokenizer_config.json", &out.tokenizer_config_json}};
  for (const auto& [name, text] : sources) {
    if (!files.contains(name)) continue;
    QUIRE_ASSIGN_OR_RETURN(*text, files.text(name));
  }
  return out;
}

// Returns the tokens that tokenizer_config.json names, completed by those of the tokenizer.
Result<boost::json::object> special_tokens(const ChatTemplateFiles& files,
                                           const Tokenizer* tokenizer) {
  boost::json::object tokens;
  if (files.tokenizer_config_json) {
    QUIRE_ASSIGN_OR_RETURN(tokens, read_special_tokens(*files.tokenizer_config_json));
  }
  if (tokenizer == nullptr) return tokens;
  const std::pair<const char*, std::optional<TokenId>> known[] = {
      {"bos_token", tokenizer->bos_id()},
      {"eos_token", tokenizer->eos_id()},
      {"unk_token", tokenizer->unk_id()},
      {"pad_token", tokenizer->pad_id()}};
  for (const auto& [name, id] : known) {
    if (id && !tokens.contains(name)) tokens[name] = std::string(tokenizer->token_to_piece(*id));
  }
  return tokens;
}

}  // namespace

ModelChat::ModelChat(std::optional<ChatTemplate> default_template,
                     std::optional<ChatTemplate> tool_template, boost::json::object special_tokens)
    : default_(std::move(default_template)),
      tools_(std::move(tool_template)),
      special_tokens_(std::move(special_tokens)) {}

Result<std::shared_ptr<const ModelChat>> ModelChat::load(const ModelFiles& files,
                                                         const Tokenizer* tokenizer,
                                                         const Sources& given) {
  std::optional<std::string> gguf_text;
  QUIRE_ASSIGN_OR_RETURN(const ChatTemplateFiles sources, template_files(files, gguf_text));
  ChatTemplateSources templates;
  if (given.instead.empty()) {
    QUIRE_ASSIGN_OR_RETURN(templates, find_chat_templates(sources));
    if (templates.by_name.empty() && !given.otherwise.empty())
      templates.by_name.emplace("default", given.otherwise);
  } else {
    templates.by_name.emplace("default", given.instead);
  }
  QUIRE_ASSIGN_OR_RETURN(boost::json::object tokens, special_tokens(sources, tokenizer));
  if (templates.by_name.empty()) {
    return std::shared_ptr<const ModelChat>(
        new ModelChat(std::nullopt, std::nullopt, std::move(tokens)));
  }

  QUIRE_ASSIGN_OR_RETURN(std::string default_source, templates.select(/*has_tools=*/false));
  QUIRE_ASSIGN_OR_RETURN(std::string tool_source, templates.select(/*has_tools=*/true));
  std::optional<ChatTemplate> tool_template;
  if (tool_source != default_source) {
    QUIRE_ASSIGN_OR_RETURN(tool_template, ChatTemplate::parse(std::move(tool_source)));
  }
  QUIRE_ASSIGN_OR_RETURN(ChatTemplate default_template,
                         ChatTemplate::parse(std::move(default_source)));
  return std::shared_ptr<const ModelChat>(
      new ModelChat(std::move(default_template), std::move(tool_template), std::move(tokens)));
}

Result<std::string> ModelChat::render(ChatPromptOptions options,
                                      const std::optional<std::string>& override_source) const {
  options.special_tokens = special_tokens_;
  if (override_source) {
    QUIRE_ASSIGN_OR_RETURN(const ChatTemplate chat_template, ChatTemplate::parse(*override_source));
    return render_chat(chat_template, std::move(options));
  }
  if (!default_) return invalid_argument("the model has no chat template");
  const bool has_tools = options.tools && !options.tools->empty();
  return render_chat(has_tools && tools_ ? *tools_ : *default_, std::move(options));
}

bool ModelChat::writes_pairs() const { return default_ && quire::writes_pairs(default_->source()); }

bool ModelChat::wants_parts() const {
  constexpr std::string_view kText = "some words";
  const auto prints = [&](boost::json::value content) {
    ChatPromptOptions options;
    options.messages.push_back(
        boost::json::object{{"role", "user"}, {"content", std::move(content)}});
    const Result<std::string> prompt = render(std::move(options));
    return prompt.ok() && prompt->find(kText) != std::string::npos;
  };
  const boost::json::object part{{"type", "text"}, {"text", kText}};
  return !prints(boost::json::string(kText)) && prints(boost::json::array{part});
}

ReplyFormat ModelChat::reply_format() const {
  if (!default_) return {};
  return {calls_of_template(tools_ ? *tools_ : *default_, special_tokens_).dialect,
          reasoning_style_of_template(default_->source())};
}

}  // namespace quire
