// These functions read operator tables for Fidelity::kTable.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "roofline/model/cost_model.h"
#include "roofline/model/operator_tables.h"

namespace quire::roofline {

// Reads CSV files, plain or .gz, whose columns are those of operator_tables.h and tell the tables
// apart. A folder stands for all tables in it; its files with other columns are left out. Without
// paths the hardware description's table_path is read, else what is built in for the device. The error says what is needed, or names file
// and line.
// Reads "bound", "analytic", "table", or "auto": table where load_tables() has something to read, else
// analytic.
Result<Fidelity> fidelity_of(std::string_view name, std::span<const std::string> paths,
                             const Hardware& hardware);
Result<std::shared_ptr<const OperatorTables>> load_tables(std::span<const std::string> paths,
                                                          const Hardware& hardware);

}  // namespace quire::roofline
