// These functions write the completions of shells. They are generated from the verbs and flags
// themselves, so that they are never out of date.
#pragma once

#include <string>
#include <vector>

#include "quire/shell/command_tree.h"

namespace quire::cli {

// Each function returns a script. Bash sources its script; zsh reads it from a folder of its fpath
// under the name _quire; fish reads it from its folder of completions under the name quire.fish.
std::string bash_completion(const std::vector<VerbText>& tree);
std::string zsh_completion(const std::vector<VerbText>& tree);
std::string fish_completion(const std::vector<VerbText>& tree);

}  // namespace quire::cli
