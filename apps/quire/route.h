// The verb `quire route`.
#pragma once

#include <CLI/CLI.hpp>

namespace quire::cli {

// As commands.h says of verbs.
void add_route(CLI::App& app, int& exit_code);

}  // namespace quire::cli
