// These read single blocks of GGUF's quantized types. They are not meant for other folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace quire {

// A BlockTarget says where the parts of one block go.
struct BlockTarget {
  uint8_t* codes;
  std::byte* scales;
  std::byte* mins;
  std::byte* super_scale;
  std::byte* super_min;
};

inline uint8_t byte_at(const std::byte* block, int64_t i) {
  return std::to_integer<uint8_t>(block[i]);
}

inline void copy_half(std::byte* to, const std::byte* from) { std::memcpy(to, from, 2); }

// Each reads a block of 256 weights whose levels lie on a grid (gguf_grids.h).
void read_iq1_s(const std::byte* block, const BlockTarget& out);
void read_iq1_m(const std::byte* block, const BlockTarget& out);
void read_iq2_xxs(const std::byte* block, const BlockTarget& out);
void read_iq2_xs(const std::byte* block, const BlockTarget& out);
void read_iq2_s(const std::byte* block, const BlockTarget& out);
void read_iq3_xxs(const std::byte* block, const BlockTarget& out);
void read_iq3_s(const std::byte* block, const BlockTarget& out);

}  // namespace quire
