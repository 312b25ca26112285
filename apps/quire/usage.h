// The program explains itself by its help, and by what it says to arguments that it does not know.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quire::cli {

// The help shows flags with their values, then says in words what they do, their bounds and
// defaults:
//   --port N       TCP port; 0 for any free one (in [0, 65535]; default 8000)
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(42); }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// Returns one line, as every other error is: what was expected, what came, and what may have been
// meant.
std::string failure_line(const CLI::App* app, const CLI::Error& error);

// Returns whether the program, or a verb of verbs, was called with nothing behind it.
bool is_bare_call(const CLI::App& app, const CLI::Error& error);

}  // namespace quire::cli
