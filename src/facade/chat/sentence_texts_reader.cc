#include "facade/chat/sentence_texts_reader.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <string>

#include "models/config_fields.h"

namespace quire {

Result<SentenceTexts> read_sentence_texts(const ModelFiles& files) {
  SentenceTexts texts;
  const auto object_of = [&](const std::string& name) -> Result<boost::json::object> {
    if (!files.contains(name)) return boost::json::object();
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
    return parse_config_object(text, name);
  };
  const std::string prompts_name = "config_sentence_transformers.json";
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object prompts_object, object_of(prompts_name));
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object model_object,
                         object_of("sentence_bert_config.json"));
  Status status;
  const ConfigReader reader(prompts_object, prompts_name, {}, status);
  if (!reader.is_null("default_prompt_name"))
    texts.default_prompt = reader.string("default_prompt_name", "");
  if (const auto* const prompts = prompts_object.if_contains("prompts");
      prompts != nullptr && prompts->is_object()) {
    for (const auto& [name, text] : prompts->get_object()) {
      if (!text.is_string())
        return invalid_argument("{}: prompts: expected texts, got another value", prompts_name);
      texts.prompts.emplace_back(name, std::string(text.get_string()));
    }
  }
  if (!texts.default_prompt.empty() && texts.find(texts.default_prompt) == nullptr) {
    reader.fail(fmt::format("default_prompt_name: expected one of the prompts, got {}",
                            texts.default_prompt));
  }
  const ConfigReader model(model_object, "sentence_bert_config.json", {}, status);
  if (const auto kwargs = model.child("processing_kwargs")) {
    if (const auto chat = kwargs->child("chat_template"))
      texts.pairs_begin_answers = chat->boolean("add_generation_prompt", false);
  }
  if (!status.ok()) return status;
  return texts;
}

}  // namespace quire
