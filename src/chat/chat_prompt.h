// render_chat() turns a conversation into a prompt. It builds the context of the template as
// transformers' apply_chat_template does.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "chat/chat_template.h"

namespace quire {

struct ChatPromptOptions {
  boost::json::array messages{};              // objects with role, content, tool_calls …
  std::optional<boost::json::array> tools{};  // {"type": "function", "function": {…}}
  std::optional<boost::json::array> documents{};
  bool add_generation_prompt = true;
  bool continue_final_message = false;   // the reply continues the last message
  boost::json::object special_tokens{};  // "bos_token": "<s>" …, see chat_template_files.h
  boost::json::object
      template_kwargs{};             // variables such as enable_thinking; win over special tokens
  bool parse_tool_arguments = true;  // arguments that come as JSON text become objects
};

// kInvalidArgument: a variable has the name of a request field.
Status check_template_kwargs(const boost::json::object& kwargs);

// Renders a conversation. kInvalidArgument: there are no messages, a message is not an object,
// template_kwargs has a reserved name, both ways to end the prompt are requested, there is no
// message to continue, or the template fails.
Result<std::string> render_chat(const ChatTemplate& chat_template, ChatPromptOptions options,
                                const RenderOptions& render_options = {});

}  // namespace quire
