// These are the readers of blocks of 256 weights whose levels lie on a grid. The codes are the
// levels with a sign, or in IQ1 with a shift, as Codebook lists them. They follow the format
// description of the ggml project.
#include <bit>

#include "base/dtype.h"
#include "weights/quant/gguf_blocks.h"
#include "weights/quant/gguf_grids.h"

namespace quire {
namespace {

constexpr uint8_t kNegative = 8;  // the codes of IQ2 and IQ3 have the sign in bit 3
constexpr uint8_t kShiftUp = 3;   // in IQ1, the three levels shifted up follow the three others

template <typename T>
T word_at(const std::byte* block, int64_t byte) {
  T value;
  std::memcpy(&value, block + byte, sizeof value);
  return value;
}

// Writes the float16 `half` times a power of two, as float32.
void write_super_scale(uint16_t half, float factor, const BlockTarget& out) {
  const float scale = to_float(float16{half}) * factor;
  std::memcpy(out.super_scale, &scale, sizeof scale);
}

// Returns the scale of a code: scales are odd numbers, 2 * code + 1.
std::byte odd_scale(unsigned code) { return static_cast<std::byte>(2 * code + 1); }

// Returns the signs of eight weights from those of seven: the eighth makes the number of negative
// ones even.
unsigned signs_of_7(unsigned bits) {
  return bits | (static_cast<unsigned>(std::popcount(bits)) & 1u) << 7;
}

void write_point(unsigned point, int bits, int count, unsigned signs, uint8_t* codes) {
  const unsigned mask = (1u << bits) - 1u;
  for (int i = 0; i < count; ++i) {
    const unsigned level = point >> (bits * i) & mask;
    codes[i] = static_cast<uint8_t>(level | (signs >> i & 1u) * kNegative);
  }
}

void write_shifted_point(unsigned point, bool is_down, uint8_t* codes) {
  for (int i = 0; i < 8; ++i) {
    const unsigned level = point >> (2 * i) & 3u;
    codes[i] = static_cast<uint8_t>(is_down ? level : level + kShiftUp);
  }
}

// Reads 4-bit codes of scales, two per byte.
void read_nibble_scales(const std::byte* scales, int64_t count, const BlockTarget& out) {
  for (int64_t g = 0; g < count; ++g)
    out.scales[g] = odd_scale(byte_at(scales, g / 2) >> (4 * (g % 2)) & 15u);
}

}  // namespace

void read_iq1_s(const std::byte* block, const BlockTarget& out) {
  write_super_scale(word_at<uint16_t>(block, 0), 0.125f, out);
  for (int64_t g = 0; g < 8; ++g) {
    const unsigned high = word_at<uint16_t>(block, 34 + 2 * g);
    out.scales[g] = odd_scale(high >> 12 & 7u);
    for (int64_t j = 0; j < 4; ++j) {
      const unsigned index = byte_at(block, 2 + 4 * g + j) | (high >> (3 * j) & 7u) << 8;
      write_shifted_point(kIq1Grid[index], (high & 0x8000u) != 0, out.codes + 32 * g + 8 * j);
    }
  }
}

void read_iq1_m(const std::byte* block, const BlockTarget& out) {
  unsigned half = 0;  // float16 whose bits are spread over four words of scales, four bits each
  for (int64_t word = 0; word < 4; ++word) {
    const unsigned scales = word_at<uint16_t>(block, 48 + 2 * word);
    half |= (scales >> 12) << (4 * word);
    for (int64_t i = 0; i < 4; ++i) out.scales[4 * word + i] = odd_scale(scales >> (3 * i) & 7u);
  }
  write_super_scale(static_cast<uint16_t>(half), 0.125f, out);
  for (int64_t j = 0; j < 32; ++j) {
    const unsigned high = byte_at(block, 32 + j / 2) >> (4 * (j % 2)) & 15u;
    const unsigned index = byte_at(block, j) | (high & 7u) << 8;
    write_shifted_point(kIq1Grid[index], (high & 8u) != 0, out.codes + 8 * j);
  }
}

void read_iq2_xxs(const std::byte* block, const BlockTarget& out) {
  write_super_scale(word_at<uint16_t>(block, 0), 0.125f, out);
  for (int64_t g = 0; g < 8; ++g) {
    const std::byte* group = block + 2 + 8 * g;
    const uint32_t signs = word_at<uint32_t>(group, 4);
    out.scales[g] = odd_scale(signs >> 28);
    for (int64_t j = 0; j < 4; ++j) {
      write_point(kIq2XxsGrid[byte_at(group, j)], 2, 8, signs_of_7(signs >> (7 * j) & 127u),
                  out.codes + 32 * g + 8 * j);
    }
  }
}

void read_iq2_xs(const std::byte* block, const BlockTarget& out) {
  write_super_scale(word_at<uint16_t>(block, 0), 0.125f, out);
  read_nibble_scales(block + 66, 16, out);
  for (int64_t j = 0; j < 32; ++j) {
    const unsigned word = word_at<uint16_t>(block, 2 + 2 * j);
    write_point(kIq2XsGrid[word & 511u], 2, 8, signs_of_7(word >> 9), out.codes + 8 * j);
  }
}

void read_iq2_s(const std::byte* block, const BlockTarget& out) {
  write_super_scale(word_at<uint16_t>(block, 0), 0.125f, out);
  read_nibble_scales(block + 74, 16, out);
  for (int64_t j = 0; j < 32; ++j) {
    const unsigned high = byte_at(block, 66 + j / 4) >> (2 * (j % 4)) & 3u;
    write_point(kIq2SGrid[byte_at(block, 2 + j) | high << 8], 2, 8, byte_at(block, 34 + j),
                out.codes + 8 * j);
  }
}

void read_iq3_xxs(const std::byte* block, const BlockTarget& out) {
  write_super_scale(word_at<uint16_t>(block, 0), 0.25f, out);
  for (int64_t g = 0; g < 8; ++g) {
    const uint32_t signs = word_at<uint32_t>(block, 66 + 4 * g);
    out.scales[g] = odd_scale(signs >> 28);
    for (int64_t j = 0; j < 8; ++j) {
      const unsigned of_8 = signs_of_7(signs >> (7 * (j / 2)) & 127u);
      write_point(kIq3XxsGrid[byte_at(block, 2 + 8 * g + j)], 3, 4, of_8 >> (4 * (j % 2)),
                  out.codes + 32 * g + 4 * j);
    }
  }
}

void read_iq3_s(const std::byte* block, const BlockTarget& out) {
  write_super_scale(word_at<uint16_t>(block, 0), 1.0f, out);
  read_nibble_scales(block + 106, 8, out);
  for (int64_t j = 0; j < 64; ++j) {
    const unsigned high = byte_at(block, 66 + j / 8) >> (j % 8) & 1u;
    write_point(kIq3SGrid[byte_at(block, 2 + j) | high << 8], 3, 4,
                byte_at(block, 74 + j / 2) >> (4 * (j % 2)), out.codes + 4 * j);
  }
}

}  // namespace quire
