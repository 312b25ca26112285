// Operator tables from files, for Fidelity::kTable.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "roofline/calibrate/operator_tables.h"

namespace quire::roofline {

// CSV files of the columns that operator_tables.h reads, told apart by them, plain or .gz; of a
// folder all that are in it, files with other columns left out. Without paths the hardware
// description's table_path. The error says what is needed, or names file and line.
Result<std::shared_ptr<const OperatorTables>> load_tables(std::span<const std::string> paths,
                                                          const Hardware& hardware);

}  // namespace quire::roofline
