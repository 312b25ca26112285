// ChatTemplate is a model's chat template: Jinja as the Hugging Face environment runs it (sandboxed
// and immutable, trim_blocks and lstrip_blocks, break and continue, tojson, raise_exception,
// strftime_now), within fixed limits.
//
//   QUIRE_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::parse(source));
//   QUIRE_ASSIGN_OR_RETURN(const std::string prompt, chat.render(context));
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// Limits for one template. Templates come with models and, where that is allowed, from clients;
// neither are trusted.
struct ChatTemplateLimits {
  int64_t max_source_bytes = int64_t{1} << 20;
  int64_t max_steps = 10'000'000;  // evaluations; work on text and lists counts by size
  int64_t max_memory_bytes = int64_t{256} << 20;  // live values of one rendering
  int64_t max_output_bytes = int64_t{64} << 20;
  int max_depth = 1000;  // nested evaluations and calls, which bounds the stack
};

struct RenderOptions {
  std::optional<std::tm> now;  // what strftime_now() shows; the local time of the call when absent
};

// A ChatTemplate does not change and is cheap to copy. Any number of threads may render it at once.
class ChatTemplate {
 public:
  // Parses `source`. kInvalidArgument: a mistake in the template, as "chat template, line N: …".
  // kTooLarge names the limit that was exceeded.
  static Result<ChatTemplate> parse(std::string source, const ChatTemplateLimits& limits = {});

  // Renders the template with `context`, an object of its variables, whose texts must be valid
  // UTF-8. kInvalidArgument: an error of the template; the message of raise_exception() is passed
  // on unchanged. kTooLarge names the limit that was exceeded.
  Result<std::string> render(const boost::json::object& context,
                             const RenderOptions& options = {}) const;

  const std::string& source() const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;  // other threads may still render after a reload
};

}  // namespace quire
