// to_normal_form() gives the normal forms of Unicode (UAX 15).
#pragma once

#include <string>

namespace quire {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text`, valid UTF-8, in that form. A text of nothing but plain characters comes back as
// it is.
std::string to_normal_form(std::string text, NormalForm form);

}  // namespace quire
