// The verbs and flags of the program as plain data, for what describes them elsewhere: completions
// of shells, the manual page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire::cli {

struct FlagText {
  std::vector<std::string> names;    // "-m", "--model"
  std::string form;                  // of its value, such as N or cpu|cuda|auto; empty: it has none
  std::vector<std::string> choices;  // of its value, where they are few
  std::string help;                  // with bounds and default
  std::string group;
};

struct VerbText {
  std::string path;                // "quire", "quire bench latency"
  std::string help;                // one or more lines
  std::vector<std::string> verbs;  // below it
  std::vector<std::string> positionals;
  std::vector<FlagText> flags;
};

// Returns every verb of `app` and below, a verb before those below it.
std::vector<VerbText> command_tree(const CLI::App& app);

}  // namespace quire::cli
