#include "chat/chat_template.h"

#include <exception>
#include <utility>

#include "base/utf8.h"
#include "chat/jinja/parse/parser.h"
#include "chat/jinja/run/interpreter.h"
#include "chat/jinja/value/text.h"

namespace quire {
namespace {

std::tm local_time_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  ::localtime_r(&seconds, &now);
  return now;
}

Status to_status(const jinja::Error& error) {
  if (error.from_template) return error.status;
  return Status(error.status.code(),
                fmt::format("chat template, line {}: {}", error.line, error.status.message()));
}

// The exceptions of this folder and of the standard library are all caught here.
template <typename Work>
auto guarded(Work work) -> Result<decltype(work())> {
  try {
    return work();
  } catch (const jinja::Error& error) {
    return to_status(error);
  } catch (const std::bad_alloc&) {
    return too_large("chat template: out of memory");
  } catch (const std::exception& error) {
    return internal_error("chat template: {}", error.what());
  }
}

}  // namespace

struct ChatTemplate::State {
  std::string source;
  jinja::Template parsed;
  ChatTemplateLimits limits;
};

Result<ChatTemplate> ChatTemplate::parse(std::string source, const ChatTemplateLimits& limits) {
  if (static_cast<int64_t>(source.size()) > limits.max_source_bytes) {
    return too_large("chat template: {} bytes, expected at most {}", source.size(),
                     limits.max_source_bytes);
  }
  if (!is_valid_utf8(source)) return invalid_argument("chat template: expected UTF-8");
  auto parsed = guarded([&] { return jinja::parse_template(source); });
  if (!parsed.ok()) return parsed.status();
  auto state = std::make_shared<State>();
  state->source = std::move(source);
  state->parsed = std::move(parsed).value();
  state->limits = limits;
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::render(const boost::json::object& context,
                                         const RenderOptions& options) const {
  const ChatTemplateLimits& limits = state_->limits;
  const jinja::RunLimits run_limits{.max_steps = limits.max_steps,
                                    .max_bytes = limits.max_memory_bytes,
                                    .max_output_bytes = limits.max_output_bytes,
                                    .max_depth = limits.max_depth};
  const std::tm now = options.now ? *options.now : local_time_now();
  return guarded([&] {
    jinja::Interpreter interpreter(state_->parsed, run_limits, now);
    return interpreter.run(context);
  });
}

const std::string& ChatTemplate::source() const { return state_->source; }

}  // namespace quire
