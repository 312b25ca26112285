#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <iterator>
#include <memory>

#include "base/log_format.h"
#include "base/utf8.h"

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

// The logger is Quire's own and not in spdlog's registry, because the registry belongs to the host
// program.
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

// Returns `text` as a JSON string, without its quotes.
std::string json_escaped(std::string_view text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

// May be set while other threads log.
std::atomic<bool>& writes_json() {
  static std::atomic<bool> writes{false};
  return writes;
}

}  // namespace

void set_log_format(LogFormat format) {
  writes_json() = format == LogFormat::kJson;
  if (format == LogFormat::kJson) {
    logger().set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "{\"time\":\"%Y-%m-%dT%H:%M:%S.%eZ\",\"level\":\"%l\",\"message\":%v}",
        spdlog::pattern_time_type::utc));
  } else {
    logger().set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  }
}

void log_fields(LogLevel level, std::string_view text, LogFields fields) {
  if (!logs(level)) return;
  const bool as_json = writes_json();
  std::string line = as_json ? fmt::format("\"{}\"", json_escaped(text)) : std::string(text);
  for (const auto& [name, value] : fields) {
    line += as_json ? fmt::format(",\"{}\":\"{}\"", name, json_escaped(value))
                    : fmt::format(" {}={}", name, value);
  }
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool logs(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void write_log(LogLevel level, std::string_view text) { log_fields(level, text, {}); }

}  // namespace quire
