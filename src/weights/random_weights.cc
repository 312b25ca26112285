// fill_random() makes reproducible weights for measurements without a checkpoint.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>

#include "base/check.h"
#include "base/float8.h"
#include "base/rng.h"
#include "weights/checkpoint.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

constexpr int64_t kRandomElements = int64_t{1} << 20;
constexpr float kLargest = 0.04f;
constexpr float kLargestE4m3 = largest(Float8::kE4M3);
constexpr int64_t kRowsTogether = 32;  // WeightPacking takes multiples of this many rows at once

// Returns a number in [-1, 1).
float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-23f - 1.0f; }

std::vector<bfloat16> random_numbers() {
  std::vector<bfloat16> random(static_cast<size_t>(kRandomElements));
  for (int64_t i = 0; i < kRandomElements; i += 4) {
    const auto words = philox4x32(0x51526e67, {static_cast<uint32_t>(i), 0, 0, 0});
    for (size_t j = 0; j < 4; ++j) {
      random[static_cast<size_t>(i) + j] = to_bfloat16(kLargest * uniform(words[j]));
    }
  }
  return random;
}

// Repeats `random` over the table.
void fill_random_table(WeightPacking& packing, const std::vector<bfloat16>& random, int64_t count,
                       DType dtype, void* out) {
  const auto period = static_cast<int64_t>(random.size());
  std::vector<std::byte> values(static_cast<size_t>(period * size_bytes(dtype)));
  for (int64_t i = 0; i < period; ++i)
    write_element(values.data(), dtype, i, to_float(random[static_cast<size_t>(i)]));
  for (int64_t i = 0; i < count; i += period) {
    packing.write(static_cast<std::byte*>(out) + i * size_bytes(dtype), values.data(),
                  std::min(period, count - i) * size_bytes(dtype));
  }
}

void write_scales(ScaleType type, float value, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    switch (type) {
      case ScaleType::kF32:
        write_element(out, DType::kF32, i, value);
        break;
      case ScaleType::kF16:
        write_element(out, DType::kF16, i, value);
        break;
      case ScaleType::kBF16:
        write_element(out, DType::kBF16, i, value);
        break;
      case ScaleType::kE8M0:
        out[i] = static_cast<std::byte>(127 + std::ilogb(value));
        break;
      default:
        out[i] = std::byte{8};
        break;
    }
  }
}

// Returns the largest magnitude that a code stands for.
float largest_code(const QuantSpec& quant) {
  switch (quant.codebook) {
    case Codebook::kLinear:
      return std::ldexp(1.0f, quant.bits - 1);
    case Codebook::kIq4Nl:
      return 127.0f;
    case Codebook::kIq1:
      return 9.0f;
    case Codebook::kIq2:
      return 43.0f;
    case Codebook::kIq3Xxs:
      return 62.0f;
    case Codebook::kIq3S:
      return 15.0f;
    case Codebook::kE2M1:
      return 6.0f;
    case Codebook::kE4M3:
      return kLargestE4m3;
  }
  return 1.0f;
}

// Random rows of matrices of one spec and number of columns.
struct RandomRows {
  QuantSpec quant;
  int64_t k = 0;
  int64_t num_rows = 0;
  QuantRowBuffer rows;
};

// Makes random codes around a zero point in the middle of their range. Codes of e4m3 are those of
// random numbers, because the time of a product may depend on their exponents.
RandomRows random_rows(const WeightSpec& spec) {
  const QuantSpec& quant = spec.quant;
  const int64_t rows_at_once =
      std::max<int64_t>(kRandomElements / spec.k / kRowsTogether, 1) * kRowsTogether;
  RandomRows random{quant, spec.k, rows_at_once, QuantRowBuffer(quant, spec.k, rows_at_once)};
  const QuantRowTarget out = random.rows.at(0);
  const bool is_e4m3 = quant.codebook == Codebook::kE4M3;
  const uint32_t mask = (1u << quant.bits) - 1u;
  for (int64_t i = 0; i < rows_at_once * spec.k; i += 4) {
    const auto words = philox4x32(0x51526e67, {static_cast<uint32_t>(i), 1, 0, 0});
    for (int64_t j = 0; j < std::min<int64_t>(4, rows_at_once * spec.k - i); ++j) {
      const uint32_t word = words[static_cast<size_t>(j)];
      out.codes[i + j] = is_e4m3 ? float_to_float8(Float8::kE4M3, kLargestE4m3 * uniform(word))
                                 : static_cast<uint8_t>(word >> 16 & mask);
    }
  }
  const float reach = largest_code(quant);
  const int64_t groups = quant.num_groups(spec.k);
  const int64_t count = rows_at_once * groups;
  const float scale = kLargest / reach;
  write_scales(quant.scale_type, scale, count, out.scales);
  if (out.mins != nullptr) write_scales(quant.scale_type, kLargest, count, out.mins);
  if (out.zeros != nullptr) std::fill_n(out.zeros, count, static_cast<uint8_t>(mask / 2 + 1));
  const int64_t super_count = rows_at_once * quant.num_super_groups(spec.k);
  if (super_count > 0)
    write_scales(quant.super_scale_type, scale / 8, super_count, out.super_scales);
  if (out.super_mins != nullptr) {
    write_scales(quant.super_scale_type, kLargest / 8, super_count, out.super_mins);
  }
  return random;
}

// Fills the matrix with the same few rows again and again. `made` holds the rows of earlier
// matrices, because a model has many matrices of one kind.
void fill_random_quantized(WeightPacking& packing, std::list<RandomRows>& made,
                           const PackedWeight& weight) {
  const WeightSpec& spec = weight.spec;
  auto random = std::find_if(made.begin(), made.end(), [&](const RandomRows& rows) {
    return rows.quant == spec.quant && rows.k == spec.k;
  });
  if (random == made.end()) random = made.insert(made.end(), random_rows(spec));
  for (int64_t row = 0; row < spec.n; row += random->num_rows) {
    packing.pack_quant_rows(weight, spec.quant,
                            random->rows.view(row, std::min(random->num_rows, spec.n - row)));
  }
}

void fill_random_matrix(WeightPacking& packing, const std::vector<bfloat16>& random,
                        const PackedWeight& weight) {
  // Rows repeat after kRandomElements, because only the spread of the values and the number of
  // bytes that are read matter.
  const int64_t rows_at_once = std::max<int64_t>(1, kRandomElements / weight.spec.k);
  for (int64_t row = 0; row < weight.spec.n; row += rows_at_once) {
    packing.pack_weight_rows(weight, {.rows = random.data(),
                                      .dtype = DType::kBF16,
                                      .first_row = row,
                                      .num_rows = std::min(rows_at_once, weight.spec.n - row),
                                      .transposed = false});
  }
}

}  // namespace

Status fill_random(WeightPacking& packing, const std::vector<WeightSlot>& slots, Arena& arena) {
  const std::vector<bfloat16> random = random_numbers();
  std::list<RandomRows> made;
  for (const WeightSlot& slot : slots) {
    if (slot.matrix != nullptr) {
      for (PackedWeight& weight : slot.matrix->parts) {
        weight.data = arena.allocate_bytes(packing.packed_bytes(weight.spec));
        packing.place(weight, slot.blocks_per_weight());
        if (weight.spec.quant.is_quantized()) {
          fill_random_quantized(packing, made, weight);
        } else {
          fill_random_matrix(packing, random, weight);
        }
      }
    } else if (slot.vector != nullptr) {
      const int64_t count = slot.kept_rows() * slot.vector_columns;
      auto* out = arena.allocate<float>(count);
      const std::vector<float> values(static_cast<size_t>(count),
                                      is_norm(slot.parts.front().role) && !slot.bias ? 1.0f : 0.0f);
      packing.write(out, values.data(), count * int64_t{sizeof(float)});
      *slot.vector = out;
    } else {
      const int64_t count = slot.rows() * slot.table_columns;
      void* out = arena.allocate_bytes(count * size_bytes(slot.table->dtype));
      fill_random_table(packing, random, count, slot.table->dtype, out);
      slot.table->data = out;
    }
  }
  return packing.finish();
}

}  // namespace quire
