#include <fmt/format.h>

#include <cstdio>

#include "quire/commands.h"

namespace quire::cli {

int report(const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "quire: {}\n", status.message());
  return 1;
}

}  // namespace quire::cli
