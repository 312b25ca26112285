#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(const char* file, int line, const char* condition, const std::string& context) {
  std::fprintf(stderr, "CHECK failed at %s:%d: %s%s%s\n", file, line, condition,
               context.empty() ? "" : ": ", context.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace quire
