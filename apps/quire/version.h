// What `quire --version` prints, so that a report of a fault names what ran.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// "quire 0.1.0".
std::string_view version_name();

// Returns "quire 0.1.0", the commit, the compiler, the instruction sets of this build and of this
// machine, and whether CUDA kernels are in, one a line.
std::string version_text();

}  // namespace quire
