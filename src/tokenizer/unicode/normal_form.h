// to_normal_form() converts text to Unicode's normal forms (UAX 15).
#pragma once

#include <string>

namespace quire {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text`, valid UTF-8, in that form. A text that is already in it is returned unchanged.
std::string to_normal_form(std::string text, NormalForm form);

}  // namespace quire
