// Packs int8 weights into panels (kernel_tables.h). Codes and scales are given, or computed here
// from float rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/dispatch.h"

namespace quire {
namespace {

using cpu::kPanelWidth;

float as_float(float x) { return x; }
float as_float(bfloat16 x) { return to_float(x); }
float as_float(float16 x) { return to_float(x); }

// One row of W.
template <typename From>
struct Row {
  const From* first;
  int64_t step;  // elements from one k to the next
  From at(int64_t k) const { return first[k * step]; }
};
template <typename From>
Row<From> row_of(const WeightRows& rows, int64_t row, int64_t k) {
  const auto* source = static_cast<const From*>(rows.rows);
  return rows.transposed ? Row<From>{source + row, rows.num_rows} : Row<From>{source + row * k, 1};
}

struct Column {
  uint8_t* panel;
  cpu::PanelLayout layout;
  int64_t column;  // in the panel
};

// Stores code(k) for all k as a column of a panel. Returns the sum of the codes.
template <typename Code>
int32_t write_column(const Column& to, int64_t k, int64_t padded, Code&& code) {
  int32_t sum = 0;
  for (int64_t k0 = 0; k0 < padded; k0 += 4) {
    int8_t four[4] = {};
    for (int64_t i = 0; i < std::min<int64_t>(4, k - k0); ++i) {
      four[i] = code(k0 + i);
      sum += four[i];
    }
    std::memcpy(to.panel + cpu::panel_word_at(to.layout, k0 / 4, to.column), four, sizeof four);
  }
  return sum;
}

// Returns NaN for a row with NaN or infinity, for which there are no codes: its outputs become NaN,
// as those of an activation row that is not finite do.
template <typename From>
float int8_scale(const Row<From>& row, int64_t k) {
  float largest = 0.0f;
  bool is_finite = true;
  for (int64_t i = 0; i < k; ++i) {
    const float value = as_float(row.at(i));
    is_finite = is_finite && std::isfinite(value);
    largest = std::max(largest, std::abs(value));
  }
  return is_finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
}

struct Target {
  Column column;
  float* scale;
  int32_t* sum;
};

template <typename From>
void pack_row(const WeightSpec& spec, const WeightRows& rows, int64_t row, const Target& to) {
  const Row<From> source = row_of<From>(rows, row, spec.k);
  const int64_t padded = cpu::padded_k(spec);
  if constexpr (std::is_same_v<From, int8_t>) {
    *to.scale = rows.scales[row];
    *to.sum = write_column(to.column, spec.k, padded, [&](int64_t k) { return source.at(k); });
  } else {
    const float scale = int8_scale(source, spec.k);
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    *to.scale = scale;
    *to.sum = write_column(to.column, spec.k, padded, [&](int64_t k) {
      const float code = std::nearbyint(as_float(source.at(k)) * inverse);
      // Rows that are not finite have codes of 0, and so has a 0 in a row so small that the inverse
      // is infinite.
      return std::isnan(code) ? int8_t{0} : static_cast<int8_t>(std::clamp(code, -127.0f, 127.0f));
    });
  }
}

void pack_row_of(const WeightSpec& spec, const WeightRows& rows, int64_t row, const Target& to) {
  switch (rows.dtype) {
    case DType::kI8:
      return pack_row<int8_t>(spec, rows, row, to);
    case DType::kF32:
      return pack_row<float>(spec, rows, row, to);
    case DType::kBF16:
      return pack_row<bfloat16>(spec, rows, row, to);
    case DType::kF16:
      return pack_row<float16>(spec, rows, row, to);
    default:
      QUIRE_CHECK(false, "[pack] expected rows of int8, f32, bf16 or f16, got {}",
                  to_string(rows.dtype));
  }
}

// Clears columns [from, 32) of a panel, which no row fills.
void clear_columns(cpu::PanelLayout layout, const PackedWeight& weight, int64_t panel,
                   int64_t from) {
  const int64_t padded = cpu::padded_k(weight.spec);
  auto* bytes = static_cast<uint8_t*>(weight.data) + panel * padded * kPanelWidth;
  const cpu::Int8Tail tail = cpu::int8_tail(weight);
  for (int64_t column = from; column < kPanelWidth; ++column) {
    write_column({bytes, layout, column}, 0, padded, [](int64_t) { return int8_t{0}; });
    tail.scales[panel * kPanelWidth + column] = 0.0f;
    tail.sums[panel * kPanelWidth + column] = 0;
  }
}

}  // namespace

void cpu::pack_int8_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows) {
  const WeightSpec& spec = weight.spec;
  QUIRE_CHECK(spec.k <= kMaxInt8K, "[pack] int8 weights have at most {} inputs, got {}", kMaxInt8K,
              spec.k);
  QUIRE_CHECK(rows.dtype != DType::kI8 || rows.scales != nullptr, "[pack] int8 rows need scales");
  const int64_t first_panel = rows.first_row / kPanelWidth;
  const int64_t end_row = rows.first_row + rows.num_rows;
  const int64_t end_panel = (end_row + kPanelWidth - 1) / kPanelWidth;
  const Int8Tail tail = int8_tail(weight);
  const PanelLayout layout = linear_kernels(host(stream).isa(), spec).layout;
  run_parallel(host(stream), rows.num_rows * spec.k, 1 << 14, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(end_panel - first_panel, 1, thread, num_threads);
    for (int64_t p = first_panel + mine.begin; p < first_panel + mine.end; ++p) {
      auto* panel = static_cast<uint8_t*>(weight.data) + p * padded_k(spec) * kPanelWidth;
      const int64_t begin = std::max(rows.first_row, p * kPanelWidth);
      const int64_t end = std::min(end_row, (p + 1) * kPanelWidth);
      for (int64_t row = begin; row < end; ++row) {
        pack_row_of(spec, rows, row - rows.first_row,
                    {{panel, layout, row % kPanelWidth}, tail.scales + row, tail.sums + row});
      }
      // The call that packs the last row of W clears the columns after it.
      if (end == spec.n) clear_columns(layout, weight, p, end - p * kPanelWidth);
    }
  });
}

}  // namespace quire
