// Tables of measured operators that are part of the program (assets/operators), by device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

bool has_builtin_tables(std::string_view hardware_name);

struct BuiltinTable {
  std::string name;  // for messages
  std::string text;  // CSV
};
// Returns the tables of a device, which may be none.
Result<std::vector<BuiltinTable>> builtin_tables(std::string_view hardware_name);

}  // namespace quire
