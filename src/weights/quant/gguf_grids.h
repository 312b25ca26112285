// GGUF's IQ types have grids. A block names a point of a grid for every 8 (IQ1, IQ2) or 4 (IQ3)
// weights. A coordinate of a point is a level: of 3 in 2 bits, or of 8 in 3 bits, the first
// coordinate in the lowest bits.
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
