// Completions of shells, made of the verbs and flags themselves, so that they are never out of date.
#pragma once

#include <string>
#include <vector>

#include "quire/shell/command_tree.h"

namespace quire::cli {

// Each returns a script: to be sourced by bash, put into a folder of zsh's fpath as _quire, or into
// fish's completions as quire.fish.
std::string bash_completion(const std::vector<VerbText>& tree);
std::string zsh_completion(const std::vector<VerbText>& tree);
std::string fish_completion(const std::vector<VerbText>& tree);

}  // namespace quire::cli
