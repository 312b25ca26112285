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

// Reads "bound", "analytic", "table", or "auto", which means table when load_tables() has something
// to read, and analytic otherwise.
Result<Fidelity> fidelity_of(std::string_view name, std::span<const std::string> paths,
                             const Hardware& hardware);
// Reads CSV files, plain or .gz, whose columns are those of operator_tables.h and tell the kinds of
// tables apart. A folder stands for all tables in it; files in it that have other columns are
// skipped. Without paths it reads the hardware description's table_path, or else the tables that
// are built in for the device. The error says what is needed, or names file and line.
Result<std::shared_ptr<const OperatorTables>> load_tables(std::span<const std::string> paths,
                                                          const Hardware& hardware);

}  // namespace quire::roofline
