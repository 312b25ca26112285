// man_page() writes the manual page quire(1) from the help of all verbs.
#pragma once

#include <string>
#include <vector>

#include "quire/shell/command_tree.h"

namespace quire::cli {

// Returns the page in man's own language (man(7)). `version` stands in its footer.
std::string man_page(const std::vector<VerbText>& tree, const std::string& version);

}  // namespace quire::cli
