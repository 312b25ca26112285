// This is the verb `quire route`.
#pragma once

#include <CLI/CLI.hpp>

namespace quire::cli {

// Adds the verb, as commands.h describes.
void add_route(CLI::App& app, int& exit_code);

}  // namespace quire::cli
