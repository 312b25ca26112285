// A row of a quantized GGUF tensor is a run of blocks; each block holds its scales and codes. The
// readers are written against the format description of the ggml project.
#include <array>
#include <cstring>

#include "weights/quant/gguf_blocks.h"
#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

constexpr int64_t kSmall = 32;   // elements of a simple block
constexpr int64_t kSuper = 256;  // elements of a super-block

// Files add the minimum and the kernels subtract it, so the sign bit of the f16 is flipped.
void copy_half_negated(std::byte* to, const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  half ^= 0x8000u;
  std::memcpy(to, &half, 2);
}

// Splits 16 bytes into 32 codes: low nibbles first, then high ones.
void split_nibbles(const std::byte* from, uint8_t* codes) {
  for (int64_t j = 0; j < 16; ++j) {
    codes[j] = byte_at(from, j) & 15u;
    codes[j + 16] = static_cast<uint8_t>(byte_at(from, j) >> 4);
  }
}

void add_fifth_bits(const std::byte* from, uint8_t* codes) {
  uint32_t high;
  std::memcpy(&high, from, 4);
  for (int64_t e = 0; e < kSmall; ++e) {
    codes[e] = static_cast<uint8_t>(codes[e] | (high >> e & 1u) << 4);
  }
}

void read_q4_0(const std::byte* block, const BlockTarget& out) {
  copy_half(out.scales, block);
  split_nibbles(block + 2, out.codes);
}

void read_q4_1(const std::byte* block, const BlockTarget& out) {
  copy_half(out.scales, block);
  copy_half_negated(out.mins, block + 2);
  split_nibbles(block + 4, out.codes);
}

void read_q5_0(const std::byte* block, const BlockTarget& out) {
  copy_half(out.scales, block);
  split_nibbles(block + 6, out.codes);
  add_fifth_bits(block + 2, out.codes);
}

void read_q5_1(const std::byte* block, const BlockTarget& out) {
  copy_half(out.scales, block);
  copy_half_negated(out.mins, block + 2);
  split_nibbles(block + 8, out.codes);
  add_fifth_bits(block + 4, out.codes);
}

void read_q8_0(const std::byte* block, const BlockTarget& out) {
  copy_half(out.scales, block);
  for (int64_t e = 0; e < kSmall; ++e) {
    out.codes[e] = static_cast<uint8_t>(byte_at(block, 2 + e) ^ 0x80u);  // q + 128
  }
}

void read_mxfp4(const std::byte* block, const BlockTarget& out) {
  out.scales[0] = block[0];
  split_nibbles(block + 1, out.codes);
}

// Splits 64 bytes into 256 codes of two bits: byte 32h + l holds elements 128h + 32j + l at bits
// 2j.
void split_pairs(const std::byte* from, uint8_t* codes) {
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t l = 0; l < 32; ++l) {
        codes[128 * h + 32 * j + l] = byte_at(from, 32 * h + l) >> (2 * j) & 3u;
      }
    }
  }
}

void read_q2_k(const std::byte* block, const BlockTarget& out) {
  for (int64_t g = 0; g < 16; ++g) {
    out.scales[g] = block[g] & std::byte{15};
    out.mins[g] = block[g] >> 4;
  }
  split_pairs(block + 16, out.codes);
  copy_half(out.super_scale, block + 80);
  copy_half(out.super_min, block + 82);
}

void read_q3_k(const std::byte* block, const BlockTarget& out) {
  split_pairs(block + 32, out.codes);
  for (int64_t e = 0; e < kSuper; ++e) {
    const unsigned high = byte_at(block, e % 32) >> (e / 32) & 1u;
    out.codes[e] = static_cast<uint8_t>(out.codes[e] | high << 2);
  }
  const std::byte* scales = block + 96;
  for (int64_t g = 0; g < 16; ++g) {
    const unsigned low = g < 8 ? byte_at(scales, g) & 15u : byte_at(scales, g - 8) >> 4;
    const unsigned high = byte_at(scales, 8 + g % 4) >> (2 * (g / 4)) & 3u;
    out.scales[g] = static_cast<std::byte>(static_cast<int>(low | high << 4) - 32);
  }
  copy_half(out.super_scale, block + 108);
}

// Reads the six-bit scales and minima of Q4_K and Q5_K.
void read_scales_6(const std::byte* s, const BlockTarget& out) {
  for (int64_t g = 0; g < 4; ++g) {
    out.scales[g] = s[g] & std::byte{63};
    out.mins[g] = s[g + 4] & std::byte{63};
    out.scales[g + 4] = (s[g + 8] & std::byte{15}) | (s[g] >> 6 << 4);
    out.mins[g + 4] = (s[g + 8] >> 4) | (s[g + 4] >> 6 << 4);
  }
}

// Splits 128 bytes into 256 codes: byte 32c + l holds elements 64c + l and 64c + 32 + l.
void split_nibble_runs(const std::byte* from, uint8_t* codes) {
  for (int64_t c = 0; c < 4; ++c) {
    for (int64_t l = 0; l < 32; ++l) {
      codes[64 * c + l] = byte_at(from, 32 * c + l) & 15u;
      codes[64 * c + 32 + l] = static_cast<uint8_t>(byte_at(from, 32 * c + l) >> 4);
    }
  }
}

void read_q4_k(const std::byte* block, const BlockTarget& out) {
  copy_half(out.super_scale, block);
  copy_half(out.super_min, block + 2);
  read_scales_6(block + 4, out);
  split_nibble_runs(block + 16, out.codes);
}

void read_q5_k(const std::byte* block, const BlockTarget& out) {
  copy_half(out.super_scale, block);
  copy_half(out.super_min, block + 2);
  read_scales_6(block + 4, out);
  split_nibble_runs(block + 48, out.codes);
  for (int64_t e = 0; e < kSuper; ++e) {
    const unsigned high = byte_at(block, 16 + e % 32) >> (e / 32) & 1u;
    out.codes[e] = static_cast<uint8_t>(out.codes[e] | high << 4);
  }
}

void read_q6_k(const std::byte* block, const BlockTarget& out) {
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t l = 0; l < 32; ++l) {
      const unsigned first = byte_at(block, 64 * h + l);
      const unsigned second = byte_at(block, 64 * h + 32 + l);
      const unsigned high = byte_at(block, 128 + 32 * h + l);
      uint8_t* codes = out.codes + 128 * h + l;
      codes[0] = static_cast<uint8_t>((first & 15u) | (high & 3u) << 4);
      codes[32] = static_cast<uint8_t>((second & 15u) | (high >> 2 & 3u) << 4);
      codes[64] = static_cast<uint8_t>(first >> 4 | (high >> 4 & 3u) << 4);
      codes[96] = static_cast<uint8_t>(second >> 4 | (high >> 6 & 3u) << 4);
    }
  }
  std::memcpy(out.scales, block + 192, 16);
  copy_half(out.super_scale, block + 208);
}

void read_iq4_xs(const std::byte* block, const BlockTarget& out) {
  copy_half(out.super_scale, block);
  uint16_t high;
  std::memcpy(&high, block + 2, 2);
  for (int64_t g = 0; g < 8; ++g) {
    const unsigned low = byte_at(block, 4 + g / 2) >> (4 * (g % 2)) & 15u;
    const unsigned scale = low | (static_cast<unsigned>(high) >> (2 * g) & 3u) << 4;
    out.scales[g] = static_cast<std::byte>(static_cast<int>(scale) - 32);
    split_nibbles(block + 8 + 16 * g, out.codes + 32 * g);
  }
}

// Five ternary digits share a byte: byte b of `count` holds elements b + count * i, the first as
// the highest digit. b * 3^i mod 256 has digit i in front, which is 3 * (b * 3^i mod 256) / 256.
void split_ternary(const std::byte* from, int64_t count, int64_t num_digits, uint8_t* codes) {
  for (int64_t b = 0; b < count; ++b) {
    unsigned rest = byte_at(from, b);
    for (int64_t i = 0; i < num_digits; ++i) {
      codes[b + count * i] = static_cast<uint8_t>(rest * 3 >> 8);
      rest = rest * 3 & 255u;
    }
  }
}

void read_tq1_0(const std::byte* block, const BlockTarget& out) {
  split_ternary(block, 32, 5, out.codes);
  split_ternary(block + 32, 16, 5, out.codes + 160);
  split_ternary(block + 48, 4, 4, out.codes + 240);
  copy_half(out.scales, block + 52);
}

void read_tq2_0(const std::byte* block, const BlockTarget& out) {
  split_pairs(block, out.codes);
  copy_half(out.scales, block + 64);
}

struct GgufReader {
  std::string_view type_name;
  int64_t block_elements;
  int64_t block_bytes;
  QuantSpec spec;
  void (*read)(const std::byte* block, const BlockTarget& out);
};

constexpr QuantSpec simple(int bits, int offset, ZeroKind zero,
                           Codebook codebook = Codebook::kLinear) {
  return {.bits = bits,
          .codebook = codebook,
          .offset = offset,
          .group_size = kSmall,
          .scale_type = ScaleType::kF16,
          .zero_kind = zero};
}
constexpr QuantSpec super(int bits, int offset, int64_t group, ScaleType scales,
                          Codebook codebook = Codebook::kLinear) {
  const bool has_min = scales != ScaleType::kI8;
  return {.bits = bits,
          .codebook = codebook,
          .offset = offset,
          .group_size = group,
          .scale_type = scales,
          .zero_kind = has_min ? ZeroKind::kMin : ZeroKind::kNone,
          .super_scale_type = ScaleType::kF16,
          .super_group_size = kSuper};
}
// An IQ type with less than 4 bits is stored as 4-bit codes of its levels and signs. Its
// super-scales are float32, because an eighth of a float16 may not be a float16.
constexpr QuantSpec grid(int64_t group, Codebook codebook) {
  return {.bits = 4,
          .codebook = codebook,
          .group_size = group,
          .scale_type = ScaleType::kU8,
          .super_scale_type = ScaleType::kF32,
          .super_group_size = kSuper};
}
constexpr QuantSpec kMxfp4{
    .bits = 4, .codebook = Codebook::kE2M1, .group_size = kSmall, .scale_type = ScaleType::kE8M0};
constexpr QuantSpec kTernary{
    .bits = 2, .offset = 1, .group_size = kSuper, .scale_type = ScaleType::kF16};

constexpr std::array<GgufReader, 22> kReaders{{
    {"Q4_0", 32, 18, simple(4, 8, ZeroKind::kNone), read_q4_0},
    {"Q4_1", 32, 20, simple(4, 0, ZeroKind::kMin), read_q4_1},
    {"Q5_0", 32, 22, simple(5, 16, ZeroKind::kNone), read_q5_0},
    {"Q5_1", 32, 24, simple(5, 0, ZeroKind::kMin), read_q5_1},
    {"Q8_0", 32, 34, simple(8, 128, ZeroKind::kNone), read_q8_0},
    {"IQ4_NL", 32, 18, simple(4, 0, ZeroKind::kNone, Codebook::kIq4Nl), read_q4_0},
    {"MXFP4", 32, 17, kMxfp4, read_mxfp4},
    {"Q2_K", 256, 84, super(2, 0, 16, ScaleType::kU4), read_q2_k},
    {"Q3_K", 256, 110, super(3, 4, 16, ScaleType::kI8), read_q3_k},
    {"Q4_K", 256, 144, super(4, 0, 32, ScaleType::kU8), read_q4_k},
    {"Q5_K", 256, 176, super(5, 0, 32, ScaleType::kU8), read_q5_k},
    {"Q6_K", 256, 210, super(6, 32, 16, ScaleType::kI8), read_q6_k},
    {"IQ4_XS", 256, 136, super(4, 0, 32, ScaleType::kI8, Codebook::kIq4Nl), read_iq4_xs},
    {"IQ1_S", 256, 50, grid(32, Codebook::kIq1), read_iq1_s},
    {"IQ1_M", 256, 56, grid(16, Codebook::kIq1), read_iq1_m},
    {"IQ2_XXS", 256, 66, grid(32, Codebook::kIq2), read_iq2_xxs},
    {"IQ2_XS", 256, 74, grid(16, Codebook::kIq2), read_iq2_xs},
    {"IQ2_S", 256, 82, grid(16, Codebook::kIq2), read_iq2_s},
    {"IQ3_XXS", 256, 98, grid(32, Codebook::kIq3Xxs), read_iq3_xxs},
    {"IQ3_S", 256, 110, grid(32, Codebook::kIq3S), read_iq3_s},
    {"TQ1_0", 256, 54, kTernary, read_tq1_0},
    {"TQ2_0", 256, 66, kTernary, read_tq2_0},
}};

const GgufReader* find_reader(std::string_view type_name) {
  for (const GgufReader& reader : kReaders) {
    if (reader.type_name == type_name) return &reader;
  }
  return nullptr;
}

class GgufMatrix final : public QuantMatrix {
 public:
  GgufMatrix(const RawTensor& tensor, const GgufReader& reader, const MatrixShape& shape)
      : QuantMatrix(shape), reader_(reader), tensor_(tensor) {
    spec_ = reader.spec;
    tensors_ = {&tensor};
  }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    const int64_t blocks_per_row = columns() / reader_.block_elements;
    const int64_t num_blocks = num_rows * blocks_per_row;
    const std::byte* block = tensor_.data.data() + first_row * blocks_per_row * reader_.block_bytes;
    const int64_t groups = reader_.block_elements / spec_.group_size;
    const int64_t group_bytes = groups * scale_bytes(spec_.scale_type);
    BlockTarget to{out.codes, out.scales, out.mins, out.super_scales, out.super_mins};
    for (int64_t i = 0; i < num_blocks; ++i) {
      reader_.read(block, to);
      block += reader_.block_bytes;
      to.codes += reader_.block_elements;
      to.scales += group_bytes;
      if (to.mins != nullptr) to.mins += group_bytes;
      if (to.super_scale != nullptr) to.super_scale += scale_bytes(spec_.super_scale_type);
      if (to.super_min != nullptr) to.super_min += scale_bytes(spec_.super_scale_type);
    }
    return check_scales(num_blocks, out);
  }

 private:
  Status check_scales(int64_t num_blocks, const QuantRowTarget& out) const {
    const bool two_levels = spec_.has_two_levels();
    const ScaleType type = two_levels ? spec_.super_scale_type : spec_.scale_type;
    const std::byte* scales = two_levels ? out.super_scales : out.scales;
    const std::byte* mins = two_levels ? out.super_mins : out.mins;
    QUIRE_RETURN_IF_ERROR(check_finite(tensor_.name, scales, type, num_blocks));
    return mins == nullptr ? Status() : check_finite(tensor_.name, mins, type, num_blocks);
  }

  const GgufReader& reader_;
  const RawTensor& tensor_;
};

}  // namespace

bool is_quantized_ggml_type(std::string_view type_name) {
  return find_reader(type_name) != nullptr;
}

std::optional<QuantSpec> ggml_quant_spec(std::string_view type_name) {
  const GgufReader* reader = find_reader(type_name);
  return reader == nullptr ? std::nullopt : std::optional(reader->spec);
}

Result<std::unique_ptr<QuantMatrix>> open_gguf_matrix(const RawTensor& tensor,
                                                      const MatrixShape& shape) {
  const GgufReader* reader = find_reader(tensor.type_name);
  QUIRE_CHECK(reader != nullptr, "{} is not a quantized ggml type", tensor.type_name);
  QUIRE_RETURN_IF_ERROR(
      check_type_and_shape(tensor, tensor.type_name, {shape.rows, shape.columns}));
  // Both follow from the shape and were checked when the file was read.
  QUIRE_CHECK(shape.columns % reader->block_elements == 0 &&
              static_cast<int64_t>(tensor.data.size()) ==
                  shape.rows * (shape.columns / reader->block_elements) * reader->block_bytes);
  return std::unique_ptr<QuantMatrix>(std::make_unique<GgufMatrix>(tensor, *reader, shape));
}

}  // namespace quire
