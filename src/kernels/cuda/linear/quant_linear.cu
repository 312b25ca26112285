// y = x W^T of quantized weights. A block holds some outputs and rows; each of its eight warps sums
// a slice of K, straight from memory to tensor cores, and the slices are added in order at the end.
// Bound by reading the codes once while rows are few.
#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/linear_output.h"
#include "kernels/cuda/linear/quant_weight.h"

namespace quire::cuda {
namespace {

constexpr int kSlices = 8;  // of K, a warp each
constexpr int kThreads = kSlices * 32;

enum class CodeKind { kInt4, kInt8, kFp8, kFp4 };
constexpr bool is_4_bit(CodeKind kind) { return kind == CodeKind::kInt4 || kind == CodeKind::kFp4; }

struct QuantLinearArgs {
  const bfloat16* x = nullptr;  // [M, K], rows x_stride apart
  int64_t x_stride = 0;
  bool x_is_aligned = false;  // rows begin at multiples of 16 bytes and are read in their order
  const uint8_t* weight = nullptr;
  QuantWeightLayout layout{};
  const int32_t* order = nullptr;  // column j multiplies x[order[j]]; or null
  int64_t n = 0;
  int64_t k = 0;
  int64_t num_rows = 0;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_is_float = false;
  bool accumulate = false;
};

// The 32 codes that a lane holds of a tile, product after product.
template <CodeKind kCode>
struct TileCodes {
  static constexpr int kWordsPerProduct = is_4_bit(kCode) ? 1 : 2;
  uint32_t words[4 * kWordsPerProduct];
};

template <CodeKind kCode>
QUIRE_DEVICE TileCodes<kCode> load_codes(const uint8_t* tile) {
  TileCodes<kCode> codes;
  const int lane = ptx::thread_index() % 32;
#pragma unroll
  for (int i = 0; i < TileCodes<kCode>::kWordsPerProduct; ++i) {
    const auto part = *reinterpret_cast<const Elements<4, uint32_t>*>(tile + i * 512 + lane * 16);
#pragma unroll
    for (int j = 0; j < 4; ++j) codes.words[i * 4 + j] = part.at[j];
  }
  return codes;
}

// What is taken off the codes of a lane's two outputs of a tile.
struct TileZeros {
  int32_t at[2];
};

// Registers of the A operand of product `j`: code minus zero as bf16, exact.
template <CodeKind kCode>
QUIRE_DEVICE void decode_product(const TileCodes<kCode>& codes, const TileZeros& zeros, int j,
                                 uint32_t (&a)[4]) {
  constexpr uint32_t kOnes = 0x3f803f80u;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int32_t zero = zeros.at[r % 2];
    if constexpr (kCode == CodeKind::kInt4) {
      // The bits of 128 + code, minus 128 + zero.
      const uint32_t raw = (codes.words[j] >> (4 * r) & 0x000f000fu) | 0x43004300u;
      const uint32_t off = 0xc300u | static_cast<uint32_t>(zero);
      a[r] = ptx::multiply_add_bf16x2(raw, kOnes, off << 16 | off);
    } else if constexpr (kCode == CodeKind::kFp4) {
      // Exponent and mantissa in place are 2^-126 of the value.
      const uint32_t pair = codes.words[j] >> (4 * r) & 0x000f000fu;
      const uint32_t raw = (pair & 0x00070007u) << 6 | (pair & 0x00080008u) << 12;
      a[r] = ptx::multiply_add_bf16x2(raw, 0x7e807e80u, 0x80008000u);
    } else {
      const uint32_t pair = codes.words[2 * j + r / 2] >> (8 * (r % 2)) & 0x00ff00ffu;
      if constexpr (kCode == CodeKind::kFp8) {
        // Exponent and mantissa in place are 2^-120 of the value.
        const uint32_t raw = (pair & 0x007f007fu) << 4 | (pair & 0x00800080u) << 8;
        a[r] = ptx::multiply_add_bf16x2(raw, 0x7b807b80u, 0x80008000u);
      } else {
        a[r] = ptx::pack_bf16(static_cast<float>(static_cast<int32_t>(pair & 0xffu) - zero),
                              static_cast<float>(static_cast<int32_t>(pair >> 16) - zero));
      }
    }
  }
}

// x[row, k .. k + 8) as pairs, in the weight's order; zeros past the rows and past K.
QUIRE_DEVICE void load_inputs(const QuantLinearArgs& args, int64_t row, int64_t k,
                              uint32_t* pairs) {
  const bfloat16* from = args.x + row * args.x_stride;
  if (row < args.num_rows && args.x_is_aligned && k + 8 <= args.k) {
    const auto part = *reinterpret_cast<const Elements<4, uint32_t>*>(from + k);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = part.at[i];
    return;
  }
  const auto element = [&](int64_t i) -> uint32_t {
    if (row >= args.num_rows || i >= args.k) return 0u;
    return from[args.order == nullptr ? i : args.order[i]].bits;
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = element(k + 2 * i + 1) << 16 | element(k + 2 * i);
}

// Sums of a warp's slice for 16 kOutTiles outputs and 8 kRowTiles rows. With minima the inputs of a
// group are summed too, by a product with ones.
template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles>
class SliceSums {
 public:
  QUIRE_DEVICE SliceSums(const QuantLinearArgs& args, int64_t first_tile, int64_t first_row)
      : args_(args), first_tile_(first_tile), first_row_(first_row) {
    clear(total_);
    clear(partial_);
    clear(inputs_);
  }

  QUIRE_DEVICE void add_chunks(int64_t begin, int64_t end) {
    const int64_t per_group = args_.layout.units_per_group;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      load_chunk(chunk);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t unit = chunk * 2 + half;
        const bool is_last = chunk + 1 == end && half == 1;
        if (unit == begin * 2 || unit % per_group == 0) start_group(unit / per_group);
        add_product(2 * half);
        add_product(2 * half + 1);
        if (is_last || (unit + 1) % per_group == 0) end_group(unit / per_group);
      }
    }
  }

  // Of output tile o, row tile r, register i.
  QUIRE_DEVICE float total(int o, int r, int i) const { return total_[o][r][i]; }

 private:
  using Sums = float[kOutTiles][kRowTiles][4];
  using InputSums = float[1][kHasMins ? kRowTiles : 1][4];

  template <int kTiles, int kRows>
  QUIRE_DEVICE static void clear(float (&sums)[kTiles][kRows][4]) {
#pragma unroll
    for (auto& rows : sums)
      for (auto& tile : rows)
        for (float& x : tile) x = 0.0f;
  }
  QUIRE_DEVICE bool has_tile(int o) const { return first_tile_ + o < args_.layout.num_tiles; }
  // Index of the lane's output `half` of tile o in the scales, zeros and mins of a group.
  QUIRE_DEVICE int64_t scale_of(int64_t group, int o, int half) const {
    return ((first_tile_ + o) * args_.layout.num_groups + group) * kQuantTileOutputs +
           ptx::thread_index() % 32 / 4 + half * 8;
  }

  QUIRE_DEVICE void start_group(int64_t group) {
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        zeros_[o].at[half] =
            has_tile(o) ? args_.weight[args_.layout.zeros_at + scale_of(group, o, half)] : 0;
      }
    }
  }

  QUIRE_DEVICE void load_chunk(int64_t chunk) {
    const QuantWeightLayout& layout = args_.layout;
    const int lane = ptx::thread_index() % 32;
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
      const int64_t tile = has_tile(o) ? first_tile_ + o : layout.num_tiles - 1;
      codes_[o] = load_codes<kCode>(args_.weight +
                                    (tile * layout.num_chunks + chunk) * layout.chunk_bytes());
    }
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int64_t row = first_row_ + r * 8 + lane / 4;
      const int64_t k = chunk * kQuantTileInputs + lane % 4 * 8;
      load_inputs(args_, row, k, x_[r]);
      load_inputs(args_, row, k + kQuantUnitInputs, x_[r] + 4);
    }
  }

  QUIRE_DEVICE void add_product(int j) {
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
      uint32_t a[4];
      decode_product<kCode>(codes_[o], zeros_[o], j, a);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        ptx::multiply_tiles(partial_[o][r], a, x_[r][2 * j], x_[r][2 * j + 1]);
    }
    if constexpr (kHasMins) {
      constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        ptx::multiply_tiles(inputs_[0][r], kOnes, x_[r][2 * j], x_[r][2 * j + 1]);
    }
  }

  QUIRE_DEVICE void end_group(int64_t group) {
    const auto* scales = reinterpret_cast<const float*>(args_.weight + args_.layout.scales_at);
#pragma unroll
    for (int o = 0; o < kOutTiles; ++o) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float scale = has_tile(o) ? scales[scale_of(group, o, half)] : 0.0f;
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i)
            total_[o][r][i] = ptx::multiply_add(partial_[o][r][i], scale, total_[o][r][i]);
        }
        if constexpr (kHasMins) {
          const auto* mins = reinterpret_cast<const float*>(args_.weight + args_.layout.mins_at);
          const float min = has_tile(o) ? -mins[scale_of(group, o, half)] : 0.0f;
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i)
              total_[o][r][i] = ptx::multiply_add(inputs_[0][r][i], min, total_[o][r][i]);
          }
        }
      }
    }
    clear(partial_);
    clear(inputs_);
  }

  const QuantLinearArgs& args_;
  int64_t first_tile_;
  int64_t first_row_;
  TileCodes<kCode> codes_[kOutTiles];  // of the chunk
  uint32_t x_[kRowTiles][8];
  TileZeros zeros_[kOutTiles];  // of the group
  Sums partial_;
  InputSums inputs_;  // of the group: of each row the same for every output
  Sums total_;
};

template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) quant_linear_kernel(const QuantLinearArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  constexpr int kSumsPerLane = kOutTiles * kRowTiles * 4;
  const int64_t row_blocks = (args.num_rows + kRowTiles * 8 - 1) / (kRowTiles * 8);
  const int64_t first_tile = ptx::block_index() / row_blocks * kOutTiles;
  const int64_t first_row = ptx::block_index() % row_blocks * kRowTiles * 8;
  const int warp = ptx::thread_index() / 32;
  const int lane = ptx::thread_index() % 32;
  auto* memory = reinterpret_cast<float*>(ptx::shared_memory());  // [slice][sum of a lane][lane]

  SliceSums<kCode, kHasMins, kOutTiles, kRowTiles> sums(args, first_tile, first_row);
  const int64_t chunks = args.layout.num_chunks;
  sums.add_chunks(chunks * warp / kSlices, chunks * (warp + 1) / kSlices);
#pragma unroll
  for (int o = 0; o < kOutTiles; ++o) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = (o * kRowTiles + r) * 4 + i;
        memory[(warp * kSumsPerLane + at) * 32 + lane] = sums.total(o, r, i);
      }
    }
  }
  ptx::sync_threads();
  for (int at = warp; at < kSumsPerLane; at += kSlices) {
    float sum = memory[at * 32 + lane];
#pragma unroll
    for (int slice = 1; slice < kSlices; ++slice)
      sum = ptx::add(sum, memory[(slice * kSumsPerLane + at) * 32 + lane]);
    const int i = at % 4;
    const int64_t row = first_row + at / 4 % kRowTiles * 8 + lane % 4 * 2 + i % 2;
    const int64_t tile = first_tile + at / 4 / kRowTiles;
    store_output(args, row, tile * kQuantTileOutputs + lane / 4 + i / 2 * 8, sum);
  }
}

template <CodeKind kCode, bool kHasMins, int kOutTiles, int kRowTiles>
void launch_shape(Stream& stream, const QuantLinearArgs& args) {
  const int64_t out_blocks = (args.layout.num_tiles + kOutTiles - 1) / kOutTiles;
  const int64_t row_blocks = (args.num_rows + kRowTiles * 8 - 1) / (kRowTiles * 8);
  constexpr int64_t kSums = int64_t{kOutTiles} * kRowTiles * 4 * 32;
  launch<quant_linear_kernel<kCode, kHasMins, kOutTiles, kRowTiles>>(
      stream,
      {.num_blocks = out_blocks * row_blocks,
       .num_threads = kThreads,
       .shared_bytes = kSlices * kSums * int64_t{sizeof(float)}},
      args);
}

// Shapes of a block differ in speed only.
template <CodeKind kCode, bool kHasMins = false>
void launch_code(Stream& stream, const QuantLinearArgs& args) {
  if (args.num_rows <= 8) return launch_shape<kCode, kHasMins, 1, 1>(stream, args);
  if (args.num_rows <= 16) return launch_shape<kCode, kHasMins, 1, 2>(stream, args);
  if (args.num_rows <= 32) return launch_shape<kCode, kHasMins, 1, 4>(stream, args);
  launch_shape<kCode, kHasMins, 4, 4>(stream, args);
}

}  // namespace

void quant_linear(Stream& stream, const LinearParams& p) {
  const WeightSpec& spec = p.weight->spec;
  if (p.num_rows == 0 || spec.n == 0) return;
  QUIRE_CHECK(p.x.dtype() == DType::kBF16, "[linear] a GPU wants bf16 inputs, got {}",
              to_string(p.x.dtype()));
  const QuantWeightLayout layout = quant_weight_layout(spec);
  const auto* weight = static_cast<const uint8_t*>(p.weight->data);
  const bool has_order = spec.quant.has_column_order;
  const QuantLinearArgs args{
      .x = static_cast<const bfloat16*>(p.x.data()),
      .x_stride = p.x_stride,
      .x_is_aligned =
          !has_order && p.x_stride % 8 == 0 && reinterpret_cast<uintptr_t>(p.x.data()) % 16 == 0,
      .weight = weight,
      .layout = layout,
      .order = has_order ? reinterpret_cast<const int32_t*>(weight + layout.order_at) : nullptr,
      .n = spec.n,
      .k = spec.k,
      .num_rows = p.num_rows,
      .bias = p.bias,
      .y = p.y.data(),
      .y_stride = p.y_stride,
      .y_is_float = p.y.dtype() == DType::kF32,
      .accumulate = p.accumulate};
  if (spec.quant.codebook == Codebook::kE2M1) return launch_code<CodeKind::kFp4>(stream, args);
  if (spec.quant.codebook == Codebook::kE4M3) return launch_code<CodeKind::kFp8>(stream, args);
  const bool has_mins = spec.quant.zero_kind == ZeroKind::kMin;
  if (spec.quant.bits == 4) {
    return has_mins ? launch_code<CodeKind::kInt4, true>(stream, args)
                    : launch_code<CodeKind::kInt4>(stream, args);
  }
  has_mins ? launch_code<CodeKind::kInt8, true>(stream, args)
           : launch_code<CodeKind::kInt8>(stream, args);
}

}  // namespace quire::cuda
