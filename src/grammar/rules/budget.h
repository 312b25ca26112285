// over_budget() makes the error of a client's grammar that costs more than it may.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace quire::grammar {

// `what` is what there is too much of: "lexer states".
inline Status over_budget(size_t most, std::string_view what) {
  return invalid_argument("grammar budget: expected at most {} {}, got more", most, what);
}

}  // namespace quire::grammar
