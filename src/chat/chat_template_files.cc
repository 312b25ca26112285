#include "chat/chat_template_files.h"

#include <array>
#include <boost/json/parse.hpp>

namespace quire {
namespace {

Result<boost::json::object> parse_object(std::string_view file, std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = 64;
  boost::json::error_code error;
  boost::json::value root;
  try {
    root = boost::json::parse({text.data(), text.size()}, error, {}, options);
  } catch (const std::exception& e) {
    return invalid_argument("{}: {}", file, e.what());
  }
  if (error) return invalid_argument("{}: not valid JSON: {}", file, error.message());
  if (!root.is_object()) return invalid_argument("{}: expected an object", file);
  return std::move(root.get_object());
}

// Adds the templates of "chat_template", which is a text or a list of {"name", "template"}.
Status add_templates(std::string_view file, const boost::json::object& root,
                     ChatTemplateSources& out) {
  const boost::json::value* value = root.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return {};
  if (value->is_string()) {
    out.by_name.emplace("default", std::string(value->get_string()));
    return {};
  }
  if (!value->is_array())
    return invalid_argument("{}: expected chat_template to be a string or a list", file);
  for (const boost::json::value& item : value->get_array()) {
    const boost::json::object* entry = item.if_object();
    const boost::json::value* name = entry == nullptr ? nullptr : entry->if_contains("name");
    const boost::json::value* text = entry == nullptr ? nullptr : entry->if_contains("template");
    if (name == nullptr || text == nullptr || !name->is_string() || !text->is_string()) {
      return invalid_argument("{}: expected chat_template entries with a name and a template",
                              file);
    }
    out.by_name.emplace(std::string(name->get_string()), std::string(text->get_string()));
  }
  return {};
}

}  // namespace

Result<std::string> ChatTemplateSources::select(bool has_tools, std::string_view name) const {
  if (by_name.empty())
    return not_found("the model has no chat template; give one with --chat-template");
  if (!name.empty()) {
    const auto it = by_name.find(name);
    if (it != by_name.end()) return it->second;
    return not_found("the model has no chat template named '{}'", name);
  }
  if (const auto it = by_name.find("tool_use"); has_tools && it != by_name.end()) return it->second;
  if (const auto it = by_name.find("default"); it != by_name.end()) return it->second;
  if (by_name.size() == 1) return by_name.begin()->second;
  return not_found("the model has several chat templates and none is the default; name one");
}

Result<ChatTemplateSources> find_chat_templates(const ChatTemplateFiles& files) {
  ChatTemplateSources out;
  if (files.chat_template_jinja)
    out.by_name.emplace("default", std::string(*files.chat_template_jinja));
  if (files.chat_template_json) {
    QUIRE_ASSIGN_OR_RETURN(const boost::json::object root,
                           parse_object("chat_template.json", *files.chat_template_json));
    QUIRE_RETURN_IF_ERROR(add_templates("chat_template.json", root, out));
  }
  if (files.tokenizer_config_json) {
    QUIRE_ASSIGN_OR_RETURN(const boost::json::object root,
                           parse_object("tokenizer_config.json", *files.tokenizer_config_json));
    QUIRE_RETURN_IF_ERROR(add_templates("tokenizer_config.json", root, out));
  }
  if (files.gguf_chat_template)
    out.by_name.emplace("default", std::string(*files.gguf_chat_template));
  return out;
}

Result<boost::json::object> read_special_tokens(std::string_view tokenizer_config_json) {
  constexpr std::array<const char*, 7> kNames{"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object root,
                         parse_object("tokenizer_config.json", tokenizer_config_json));
  boost::json::object out;
  for (const char* name : kNames) {
    const boost::json::value* value = root.if_contains(name);
    // A token is a text, or an object with the text as "content".
    if (value != nullptr && value->is_object()) value = value->get_object().if_contains("content");
    if (value != nullptr && value->is_string()) out[name] = value->get_string();
  }
  return out;
}

}  // namespace quire
