// The IQ types of GGUF quantize to grids. A block names a point of a grid for every 8 weights (IQ1,
// IQ2) or every 4 (IQ3). Each coordinate of a point is one of 3 levels in 2 bits or one of 8 levels
// in 3 bits, with the first coordinate in the lowest bits.
#pragma once

#include <array>
#include <cstdint>

namespace quire {

extern const std::array<uint16_t, 2048> kIq1Grid;  // of IQ1_S and IQ1_M
extern const std::array<uint16_t, 256> kIq2XxsGrid;
extern const std::array<uint16_t, 512> kIq2XsGrid;
extern const std::array<uint16_t, 1024> kIq2SGrid;
extern const std::array<uint16_t, 256> kIq3XxsGrid;
extern const std::array<uint16_t, 512> kIq3SGrid;

}  // namespace quire
