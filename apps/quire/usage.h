// The program explains itself by its help, and by its errors about arguments that it cannot read.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quire::cli {

// The help shows each flag with its value, then says in words what it does, its bounds and its
// default:
//   --port N       TCP port; 0 for any free one (in [0, 65535]; default 8000)
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(42); }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// Returns one line, as for every other error: what was expected, what came, and what the user may
// have meant.
std::string failure_line(const CLI::App* app, const CLI::Error& error);

// Returns whether the program, or a verb that has verbs below it, was called without arguments.
bool is_bare_call(const CLI::App& app, const CLI::Error& error);

}  // namespace quire::cli
