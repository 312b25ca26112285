#include "quire/served_model.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <ctime>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "facade/model_images.h"
#include "models/speech/speech_config.h"
#include "server/models/models_dir.h"
#include "server/openai/tokenizer_codec.h"
#include "server/speech/speech_model.h"

namespace quire::cli {
namespace {

ChatRenderer chat_renderer(std::shared_ptr<const ModelChat> chat) {
  return [chat = std::move(chat)](const ChatRenderRequest& request) {
    ChatPromptOptions options{.messages = request.messages,
                              .add_generation_prompt = request.add_generation_prompt,
                              .continue_final_message = request.continue_final_message,
                              .template_kwargs = request.template_kwargs};
    if (!request.tools.empty()) options.tools = request.tools;
    if (!request.documents.empty()) options.documents = request.documents;
    return chat->render(std::move(options), request.template_source);
  };
}

// Returns tokenizer_config.json for /tokenizer_info; empty when there is none to read.
boost::json::object tokenizer_config_of(const ModelBundle& bundle) {
  constexpr std::string_view kFile = "tokenizer_config.json";
  if (bundle.files == nullptr || !bundle.files->contains(kFile)) return {};
  const Result<std::string_view> text = bundle.files->text(kFile);
  if (!text.ok()) return {};
  boost::system::error_code ec;
  boost::json::value config = boost::json::parse(boost::json::string_view(*text), ec);
  return !ec && config.is_object() ? std::move(config.get_object()) : boost::json::object();
}

// Adds the aliases of --model-alias to the model's names. Each alias must stand for one of them.
Status add_aliases(const ServeFlags& flags, std::vector<std::string>& names) {
  QUIRE_ASSIGN_OR_RETURN(const server::ModelAliases aliases,
                         server::parse_aliases(flags.model_aliases));
  const std::vector<std::string> known = names;
  for (const auto& [alias, name] : aliases) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return invalid_argument("--model-alias: expected the served model ({}), got {}",
                              known.front(), name);
    if (std::find(names.begin(), names.end(), alias) == names.end()) names.push_back(alias);
  }
  return {};
}

// Returns null for a model that does not read speech.
Result<std::shared_ptr<const SpeechModel>> speech_model(const ServeFlags& flags,
                                                        const RunningModel& running,
                                                        const TextCodec& codec) {
  if (!running.plan.spec.cross.any()) return std::shared_ptr<const SpeechModel>();
  const ModelFiles& files = *running.bundle.files;
  QUIRE_ASSIGN_OR_RETURN(const std::optional<SpeechSpec> speech, read_speech(files));
  if (!speech) return std::shared_ptr<const SpeechModel>();
  std::string_view generation;
  if (files.contains("generation_config.json")) {
    QUIRE_ASSIGN_OR_RETURN(generation, files.text("generation_config.json"));
  }
  QUIRE_ASSIGN_OR_RETURN(SpeechTokens tokens,
                         quire::read_speech_tokens(codec.mark_tokens(), generation));
  const WindowShape shape{.num_bands = speech->num_bands,
                          .num_frames = speech->num_frames(),
                          .num_embeddings = speech->num_rows};
  return std::make_shared<const SpeechModel>(
      SpeechModel{.audio = AudioInput(shape, flags.audio), .tokens = std::move(tokens)});
}

}  // namespace

ReplyFormat reply_format(const ServeFlags& flags, const ModelBundle& bundle) {
  const bool asks_template = flags.tool_call_parser == "auto" || flags.reasoning_parser == "auto";
  ReplyFormat format;
  if (asks_template && bundle.chat != nullptr) format = bundle.chat->reply_format();
  if (flags.tool_call_parser != "auto") format.dialect = find_dialect(flags.tool_call_parser);
  if (flags.reasoning_parser != "auto") {
    format.reasoning = find_reasoning_style(flags.reasoning_parser);
  }
  return format;
}

Result<ServedModel> served_model(const ServeFlags& flags, const RunningModel& running) {
  ServedModel served;
  served.names = flags.served_model_names.empty() ? std::vector{running.bundle.name}
                                                  : flags.served_model_names;
  if (flags.models.directory.empty()) QUIRE_RETURN_IF_ERROR(add_aliases(flags, served.names));
  served.engine = running.engine;
  served.adapters = running.adapters;
  served.codec = running.bundle.tokenizer
                     ? make_text_codec(running.bundle.tokenizer)
                     : make_ids_only_codec(running.engine->model_info().vocab_size);
  if (running.bundle.chat) served.render_chat = chat_renderer(running.bundle.chat);
  served.has_chat_template = running.bundle.has_chat_template();
  if (flags.generation_config == "auto") served.defaults = running.bundle.generation.sampling;
  served.eos_token_ids = running.bundle.generation.eos_token_ids;
  served.root = flags.engine.model.empty() ? running.bundle.name : flags.engine.model;
  served.created_s = std::time(nullptr);
  if (flags.server.enable_tokenizer_info) {
    served.tokenizer_config = tokenizer_config_of(running.bundle);
  }
  served.max_model_len = running.max_model_len;
  served.labels = running.plan.config.labels;
  served.texts = running.bundle.texts;
  served.pairs_are_chats = running.bundle.chat && running.bundle.chat->writes_pairs();
  ImageInputOptions images = flags.images;
  images.max_images = flags.engine.max_images;
  QUIRE_ASSIGN_OR_RETURN(served.images, image_input_of(running, images));
  QUIRE_ASSIGN_OR_RETURN(served.speech, speech_model(flags, running, *served.codec));
  served.chat_content_in_parts =
      served.images != nullptr && running.bundle.chat && running.bundle.chat->wants_parts();
  return served;
}

}  // namespace quire::cli
