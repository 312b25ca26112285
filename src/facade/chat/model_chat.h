// ModelChat turns a conversation into the prompt of a model, by the model's chat templates and the
// special tokens that they write.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/chat_prompt.h"
#include "chat/chat_template.h"
#include "chat/reply_format.h"
#include "tokenizer/tokenizer.h"
#include "weights/files/model_files.h"

namespace quire {

// Immutable; any thread may use it.
class ModelChat {
 public:
  // Templates beside those of the files; empty ones are not used.
  struct Sources {
    std::string instead;    // used in place of the files' templates
    std::string otherwise;  // used if the files have no template
  };

  // Reads chat_template.jinja, chat_template.json, tokenizer_config.json or the GGUF metadata. A
  // model without a template can only use those of requests. `tokenizer` (may be null) gives the
  // special tokens that the files leave out.
  static Result<std::shared_ptr<const ModelChat>> load(const ModelFiles& files,
                                                       const Tokenizer* tokenizer,
                                                       const Sources& given);

  // Returns the prompt of a conversation. It uses `override_source` if given, or the model's tool
  // template if there are tools and the model has one. It sets special_tokens. kInvalidArgument:
  // there is no template.
  Result<std::string> render(ChatPromptOptions options,
                             const std::optional<std::string>& override_source = {}) const;

  bool has_template() const { return default_.has_value(); }

  // Whether the template writes pairs for a reranker: chat/pair_prompt.h.
  bool writes_pairs() const;

  // Whether the template prints the text of a message only if its content is a list of parts. The
  // call renders a conversation.
  bool wants_parts() const;

  // Returns how the model's template writes calls and reasoning; empty where the template does not
  // tell. The call renders conversations, which takes milliseconds.
  ReplyFormat reply_format() const;

 private:
  ModelChat(std::optional<ChatTemplate> default_template, std::optional<ChatTemplate> tool_template,
            boost::json::object special_tokens);

  std::optional<ChatTemplate> default_;
  std::optional<ChatTemplate> tools_;
  boost::json::object special_tokens_;
};

}  // namespace quire
