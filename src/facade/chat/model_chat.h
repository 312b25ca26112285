// A ModelChat is a model's way to turn a conversation into a prompt: its chat templates and the
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

// It is immutable; any thread may use it.
class ModelChat {
 public:
  // Templates beside those of the files; empty ones are not used.
  struct Sources {
    std::string instead;    // is used whatever the files hold
    std::string otherwise;  // is used where the files hold none
  };

  // Reads chat_template.jinja, chat_template.json, tokenizer_config.json or the GGUF metadata. A
  // model without a template renders by those of requests alone. `tokenizer` (may be null) names
  // the special tokens that the files leave out.
  static Result<std::shared_ptr<const ModelChat>> load(const ModelFiles& files,
                                                       const Tokenizer* tokenizer,
                                                       const Sources& given);

  // Returns the prompt of a conversation, by the model's tool template when there are tools and it
  // has one. It fills in special_tokens. `override_source` is a template to use instead.
  // kInvalidArgument: there is no template.
  Result<std::string> render(ChatPromptOptions options,
                             const std::optional<std::string>& override_source = {}) const;

  bool has_template() const { return default_.has_value(); }

  // Whether it writes what a reranker is asked: chat/pair_prompt.h.
  bool writes_pairs() const;

  // Whether the template prints the text of a message only where its content is a list of parts.
  // Renders a conversation.
  bool wants_parts() const;

  // How the model's template writes calls and reasoning; empty where it leaves that open. Renders
  // conversations: milliseconds.
  ReplyFormat reply_format() const;

 private:
  ModelChat(std::optional<ChatTemplate> default_template, std::optional<ChatTemplate> tool_template,
            boost::json::object special_tokens);

  std::optional<ChatTemplate> default_;
  std::optional<ChatTemplate> tools_;
  boost::json::object special_tokens_;
};

}  // namespace quire
