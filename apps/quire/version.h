// This is the text of `quire --version`, so that a bug report names what ran.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Returns "quire 0.1.0".
std::string_view version_name();

// Returns one line each for "quire 0.1.0", the commit, the compiler, the instruction sets of this
// build and of this machine, and whether the program has CUDA kernels.
std::string version_text();

}  // namespace quire
