// The verbs and flags of the program as plain data, from which shell completions and the manual
// page are made.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire::cli {

struct FlagText {
  std::vector<std::string> names;    // "-m", "--model"
  std::string form;                  // of the value: N, cpu|cuda|auto; empty: there is none
  std::vector<std::string> choices;  // all values, where they are few
  std::string help;                  // with the bounds and the default
  std::string group;
};

struct VerbText {
  std::string path;                // "quire", "quire bench latency"
  std::string help;                // one or more lines
  std::vector<std::string> verbs;  // the verbs below this one
  std::vector<std::string> positionals;
  std::vector<FlagText> flags;
};

// Returns every verb of `app` and below it. A verb comes before the verbs below it.
std::vector<VerbText> command_tree(const CLI::App& app);

}  // namespace quire::cli
