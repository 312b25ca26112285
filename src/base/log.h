// Quire logs to standard error, because standard output is for answers and tables, or for the
// program that uses the library. Any thread may log.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace quire {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kCritical };

// Lines below `level` are not logged. The level is kWarn at first.
void set_log_level(LogLevel level);
bool logs(LogLevel level);
void write_log(LogLevel level, std::string_view text);

#define QUIRE_DEFINE_LOG(name, level)                                             \
  template <typename... Args>                                                     \
  void name(fmt::format_string<Args...> format, Args&&... args) {                 \
    if (!logs(LogLevel::level)) return;                                           \
    write_log(LogLevel::level, fmt::format(format, std::forward<Args>(args)...)); \
  }
QUIRE_DEFINE_LOG(log_debug, kDebug)
QUIRE_DEFINE_LOG(log_info, kInfo)
QUIRE_DEFINE_LOG(log_warn, kWarn)
QUIRE_DEFINE_LOG(log_error, kError)
QUIRE_DEFINE_LOG(log_critical, kCritical)
#undef QUIRE_DEFINE_LOG

}  // namespace quire
