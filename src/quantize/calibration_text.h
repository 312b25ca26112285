// The default text for comparing quantized models: plain prose, a dialogue, a list, code and
// numbers, so that no kind of input is left out.
#pragma once

#include <string_view>

namespace quire {

extern const std::string_view kCalibrationText;

}  // namespace quire
