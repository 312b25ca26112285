// Some tables of measured operators are part of the program (assets/operators), by device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire {

bool has_builtin_tables(std::string_view hardware_name);

struct BuiltinTable {
  std::string name;  // as messages show it
  std::string text;  // CSV
};
// Returns none where there are none of this device.
Result<std::vector<BuiltinTable>> builtin_tables(std::string_view hardware_name);

}  // namespace quire
