// The verbs below `quire roofline`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace quire::roofline {

void add_probe(CLI::App& roofline, int& exit_code);
void add_calibrate(CLI::App& roofline, int& exit_code);
void add_residuals(CLI::App& roofline, int& exit_code);

// A whole file, at most 4 GiB.
Result<std::string> read_log(const std::string& path);

}  // namespace quire::roofline
