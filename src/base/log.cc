#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

namespace quire {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kCritical:
      break;
  }
  return spdlog::level::critical;
}

// The logger is Quire's own and not in spdlog's registry, because the loggers of the host program
// and their levels are the host's.
spdlog::logger& logger() {
  static const auto log = [] {
    auto made = std::make_shared<spdlog::logger>(
        "quire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_level(spdlog::level::warn);
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *log;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool logs(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void write_log(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace quire
