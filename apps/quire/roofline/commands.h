// These are the verbs below `quire roofline`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace quire::roofline {

void add_probe(CLI::App& roofline, int& exit_code);
void add_calibrate(CLI::App& roofline, int& exit_code);
void add_residuals(CLI::App& roofline, int& exit_code);

// Reads a whole step log or table of at most 4 GiB, and unpacks a .gz file.
Result<std::string> read_input(const std::string& path);

}  // namespace quire::roofline
