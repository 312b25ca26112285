// Where a model keeps its chat template and the special tokens that templates write.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// The texts that may hold a template; absent ones are nullopt.
struct ChatTemplateFiles {
  std::optional<std::string_view> chat_template_jinja;  // chat_template.jinja
  std::optional<std::string_view> chat_template_json;  // chat_template.json: {"chat_template": …}
  std::optional<std::string_view> tokenizer_config_json;  // tokenizer_config.json: "chat_template"
  std::optional<std::string_view> gguf_chat_template;     // GGUF key tokenizer.chat_template
};

// Template sources by name. A model with one template calls it "default"; a model without has none.
struct ChatTemplateSources {
  std::map<std::string, std::string, std::less<>> by_name;

  // Returns the named template; without a name "tool_use" when there are tools and such a template,
  // and otherwise "default". kNotFound: there is none.
  Result<std::string> select(bool has_tools, std::string_view name = {}) const;
};

// The first of chat_template.jinja, chat_template.json, tokenizer_config.json, GGUF that has one;
// named templates of tokenizer_config.json are added where they do not clash. kInvalidArgument for
// malformed JSON.
Result<ChatTemplateSources> find_chat_templates(const ChatTemplateFiles& files);

// Returns, as text, which of bos_token, eos_token, unk_token, sep_token, pad_token, cls_token and
// mask_token tokenizer_config.json sets. kInvalidArgument: the JSON is malformed.
Result<boost::json::object> read_special_tokens(std::string_view tokenizer_config_json);

}  // namespace quire
