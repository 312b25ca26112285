// This function makes text from untrusted files safe to print.
#pragma once

#include <string_view>

#include "base/result.h"

namespace quire {

// Returns the same status with every byte of its message that could break a line or a terminal
// shown as \xNN, because names in messages come from files.
Status one_line(const Status& status);

}  // namespace quire
