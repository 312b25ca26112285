// The verbs below `quire roofline`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace quire::roofline {

void add_probe(CLI::App& roofline, int& exit_code);
void add_calibrate(CLI::App& roofline, int& exit_code);

// Whole files, at most 4 GiB.
Result<std::string> read_text(const std::string& path);
Status write_text(const std::string& path, const std::string& text);

}  // namespace quire::roofline
