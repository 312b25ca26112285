// QUIRE_CHECK(cond, "format", args...) finds bugs in Quire: if `cond` is false, it prints the
// place, the condition and the context, and aborts. It must not depend on user input; functions
// that may fail return Result (result.h). QUIRE_DCHECK does the same in builds with debug checks
// (dev and sanitizer presets) and nothing in others.
#pragma once

#include <fmt/format.h>

#include <string>

namespace quire {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& context);
}  // namespace quire

#define QUIRE_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition)) [[unlikely]] {                                                        \
      ::quire::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                       \
  } while (false)

#ifdef QUIRE_DEBUG_CHECKS
#define QUIRE_DCHECK(condition, ...) QUIRE_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#else
#define QUIRE_DCHECK(condition, ...) \
  do {                               \
  } while (false)
#endif
