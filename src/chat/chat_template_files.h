// These functions find a model's chat templates and the special tokens that templates write.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// The texts that may hold a template; nullopt for files that the model does not have.
struct ChatTemplateFiles {
  std::optional<std::string_view> chat_template_jinja;  // chat_template.jinja
  std::optional<std::string_view> chat_template_json;  // chat_template.json: {"chat_template": …}
  std::optional<std::string_view> tokenizer_config_json;  // tokenizer_config.json: "chat_template"
  std::optional<std::string_view> gguf_chat_template;     // GGUF key tokenizer.chat_template
};

// The template sources by name. A single template is called "default"; a model without templates
// has none.
struct ChatTemplateSources {
  std::map<std::string, std::string, std::less<>> by_name;

  // Returns the template with this name. Without a name it returns "tool_use" when there are tools
  // and such a template, and otherwise "default". kNotFound: there is no such template.
  Result<std::string> select(bool has_tools, std::string_view name = {}) const;
};

// Reads the first of chat_template.jinja, chat_template.json, tokenizer_config.json and GGUF that
// has a template. Named templates of tokenizer_config.json are added when their names are still
// free. kInvalidArgument: a file is not valid JSON.
Result<ChatTemplateSources> find_chat_templates(const ChatTemplateFiles& files);

// Returns the texts of those of bos_token, eos_token, unk_token, sep_token, pad_token, cls_token
// and mask_token that tokenizer_config.json sets. kInvalidArgument: the JSON is malformed.
Result<boost::json::object> read_special_tokens(std::string_view tokenizer_config_json);

}  // namespace quire
