// Packs weights from rows, the order of checkpoints, into the panels of kernel_tables.h, and
// unpacks them. Copying takes most of the time: a 1B model is 2.5 GB to read and to write. So each
// source line is used whole while it is in the cache, and the next lines are prefetched, because 32
// streams of rows are more than the hardware follows.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/api/packed/unpack.h"
#include "kernels/api/quant.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

using cpu::kPanelWidth;
using cpu::PanelLayout;

template <typename T>
float as_float(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return to_float(x);
  }
}
template <typename To, typename From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, float>) {
    return as_float(x);
  } else if constexpr (std::is_same_v<To, bfloat16>) {
    return to_bfloat16(as_float(x));
  } else {
    return to_float16(as_float(x));
  }
}

// Returns the index of (k, column) in a panel of element type T.
template <typename T>
int64_t panel_index(PanelLayout layout, int64_t k, int64_t column) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    return cpu::panel_word_at(layout, k / 2, column) / 2 + k % 2;
  } else {
    return k * kPanelWidth + column;
  }
}

struct PanelPart {
  int64_t first_column;  // columns [first, end) of the panel are filled from these rows
  int64_t end_column;
  int64_t first_row;  // the source's row for first_column
  int64_t zero_from;  // columns from here to 32 are after N, and become 0
  PanelLayout layout;
};

template <typename To, typename From>
void pack_part(To* panel, int64_t k, int64_t padded, const WeightRows& rows,
               const PanelPart& part) {
  constexpr int64_t kBlock = 64 / sizeof(From);  // one cache line of a row
  const From* source = static_cast<const From*>(rows.rows);
  for (int64_t k0 = 0; k0 < k; k0 += kBlock) {
    const int64_t n = std::min(kBlock, k - k0);
    for (int64_t column = part.first_column; column < part.end_column; ++column) {
      const int64_t row = part.first_row + column - part.first_column;
      if (rows.transposed) {
        for (int64_t i = 0; i < n; ++i) {
          panel[panel_index<To>(part.layout, k0 + i, column)] =
              convert<To>(source[(k0 + i) * rows.num_rows + row]);
        }
        continue;
      }
      const From* from = source + row * k + k0;
      __builtin_prefetch(from + 8 * kBlock, 0, 0);
      if (std::is_same_v<To, bfloat16> && std::is_same_v<From, bfloat16> && n == kBlock) {
        // Pairs stay pairs, so this moves 32-bit words.
        uint32_t words[16];
        std::memcpy(words, from, sizeof words);
        auto* to = reinterpret_cast<uint8_t*>(panel + panel_index<To>(part.layout, k0, column));
        const int64_t pitch = part.layout == PanelLayout::kTiles ? 64 : kPanelWidth * 4;
        for (int i = 0; i < 16; ++i) std::memcpy(to + i * pitch, &words[i], 4);
        continue;
      }
      for (int64_t i = 0; i < n; ++i) {
        panel[panel_index<To>(part.layout, k0 + i, column)] = convert<To>(from[i]);
      }
    }
  }
  for (int64_t kk = k; kk < padded; ++kk) {
    for (int64_t column = part.first_column; column < part.end_column; ++column) {
      panel[panel_index<To>(part.layout, kk, column)] = To{};
    }
  }
  for (int64_t kk = 0; kk < padded; ++kk) {
    for (int64_t column = part.zero_from; column < kPanelWidth; ++column) {
      panel[panel_index<To>(part.layout, kk, column)] = To{};
    }
  }
}

template <typename To, typename From>
void pack_panels(PanelLayout layout, const PackedWeight& weight, const WeightRows& rows,
                 WorkRange panels) {
  const WeightSpec& spec = weight.spec;
  const int64_t padded = cpu::padded_k(spec);
  const int64_t panel_elements = padded * kPanelWidth;
  const int64_t end_row = rows.first_row + rows.num_rows;
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    PanelPart part;
    part.layout = layout;
    part.first_column = std::max<int64_t>(rows.first_row - p * kPanelWidth, 0);
    part.end_column = std::min(end_row - p * kPanelWidth, kPanelWidth);
    part.first_row = p * kPanelWidth + part.first_column - rows.first_row;
    // The call that packs the last row of W clears the columns after it.
    part.zero_from = end_row == spec.n ? part.end_column : kPanelWidth;
    pack_part<To, From>(static_cast<To*>(weight.data) + p * panel_elements, spec.k, padded, rows,
                        part);
  }
}

template <typename To>
void pack_from(PanelLayout layout, const PackedWeight& weight, const WeightRows& rows,
               WorkRange panels) {
  switch (rows.dtype) {
    case DType::kF32:
      return pack_panels<To, float>(layout, weight, rows, panels);
    case DType::kBF16:
      return pack_panels<To, bfloat16>(layout, weight, rows, panels);
    case DType::kF16:
      return pack_panels<To, float16>(layout, weight, rows, panels);
    default:
      QUIRE_CHECK(false, "[pack] expected rows of f32, bf16 or f16, got {}", to_string(rows.dtype));
  }
}

template <typename T>
void unpack_row(PanelLayout layout, const PackedWeight& weight, int64_t row, float* out) {
  const T* const panel = static_cast<const T*>(weight.data) +
                         row / kPanelWidth * cpu::padded_k(weight.spec) * kPanelWidth;
  for (int64_t k = 0; k < weight.spec.k; ++k)
    out[k] = as_float(panel[panel_index<T>(layout, k, row % kPanelWidth)]);
}

void unpack_int8_row(PanelLayout layout, const PackedWeight& weight, int64_t row, float* out) {
  const auto* const panel = static_cast<const int8_t*>(weight.data) +
                            row / kPanelWidth * cpu::padded_k(weight.spec) * kPanelWidth;
  const float scale = cpu::int8_tail(weight).scales[row];
  for (int64_t k = 0; k < weight.spec.k; ++k) {
    const int8_t code = panel[cpu::panel_word_at(layout, k / 4, row % kPanelWidth) + k % 4];
    out[k] = scale * static_cast<float>(code);
  }
}

}  // namespace

void unpack_weight_row(Isa isa, const PackedWeight& weight, int64_t row, float* out) {
  const WeightSpec& spec = weight.spec;
  QUIRE_CHECK(row >= 0 && row < spec.n, "[unpack] row {} of {}", row, spec.n);
  if (spec.quant.is_quantized()) return unpack_quant_row(weight, row, out);
  const PanelLayout layout = cpu::linear_kernels(isa, spec).layout;
  if (spec.dtype == DType::kI8) return unpack_int8_row(layout, weight, row, out);
  switch (cpu::storage_of(spec.dtype)) {
    case cpu::kStoreBf16:
      return unpack_row<bfloat16>(layout, weight, row, out);
    case cpu::kStoreF16:
      return unpack_row<float16>(layout, weight, row, out);
    default:
      return unpack_row<float>(layout, weight, row, out);
  }
}

void cpu::pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows) {
  const WeightSpec& spec = weight.spec;
  QUIRE_CHECK(rows.first_row >= 0 && rows.num_rows >= 0 && rows.num_rows <= spec.n - rows.first_row,
              "[pack] rows [{}, {} + {}) of {}", rows.first_row, rows.first_row, rows.num_rows,
              spec.n);
  if (rows.num_rows == 0) return;
  if (spec.dtype == DType::kI8) return cpu::pack_int8_rows(stream, weight, rows);
  const int64_t first_panel = rows.first_row / kPanelWidth;
  const int64_t end_panel = (rows.first_row + rows.num_rows + kPanelWidth - 1) / kPanelWidth;
  const PanelLayout layout = cpu::linear_kernels(cpu::host(stream).isa(), spec).layout;
  cpu::run_parallel(
      cpu::host(stream), rows.num_rows * spec.k, 1 << 14, [&](int thread, int num_threads) {
        const WorkRange mine = split_work(end_panel - first_panel, 1, thread, num_threads);
        const WorkRange panels{first_panel + mine.begin, first_panel + mine.end};
        switch (cpu::storage_of(spec.dtype)) {
          case cpu::kStoreBf16:
            return pack_from<bfloat16>(layout, weight, rows, panels);
          case cpu::kStoreF16:
            return pack_from<float16>(layout, weight, rows, panels);
          default:
            return pack_from<float>(layout, weight, rows, panels);
        }
      });
}

}  // namespace quire
