#include "exec/gpu/gpu_packing.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "kernels/api/fp8_support.h"
#include "kernels/cuda/linear/fp8_linear.h"
#include "kernels/cuda/linear/int8_linear.h"
#include "kernels/cuda/linear/weight_rows.h"
#include "kernels/cuda/quant/quant_weight.h"
#include "kernels/quant_rows.h"

namespace quire {
namespace {

constexpr int64_t kConvertedElements = int64_t{1} << 22;  // per pass

WeightSpec dense_spec(const WeightSpec& spec) {
  return {.n = spec.n, .k = spec.k, .dtype = DType::kBF16, .compute = ComputeType::kBF16};
}

// Returns the format of the tiles of kernels/cuda/quant/quant_weight.h for a stored format, with
// simpler codes and scales (simpler_quant()) where needed; nothing if no kernel supports that.
std::optional<WeightSpec> tile_spec(const WeightSpec& stored) {
  WeightSpec spec = stored;
  spec.dtype = DType::kBF16;
  spec.compute = ComputeType::kBF16;
  if (!cuda::check_quant_weight(spec).ok()) spec.quant = simpler_quant(stored.quant);
  if (!cuda::check_quant_weight(spec).ok()) return std::nullopt;
  return spec;
}

// Returns whether the weight has codes of one byte and a scale per output (fp8_weight_layout()).
bool is_of_bytes(const WeightSpec& spec) {
  return cuda::has_fp8_products(spec) || cuda::has_int8_products(spec);
}

std::byte* at(const PackedWeight& weight, int64_t offset) {
  return static_cast<std::byte*>(weight.data) + offset;
}

}  // namespace

Result<WeightSpec> GpuPacking::choose(const WeightSpec& stored, QuantActivations activations) {
  if (!stored.quant.is_quantized()) {
    if (stored.dtype == DType::kBF16) return dense_spec(stored);
    return Status(StatusCode::kUnimplemented,
                  fmt::format("cuda: expected weights of bfloat16 or quantized ones, got {}",
                              to_string(stored.dtype)));
  }
  QUIRE_RETURN_IF_ERROR(check_quant(stored));
  WeightSpec spec = stored;
  spec.dtype = DType::kBF16;
  spec.compute = ComputeType::kBF16;
  if (activations != QuantActivations::kFloat && cuda::fits_fp8_products(stored)) {
    WeightSpec fp8 = spec;
    fp8.dtype = DType::kF8E4M3;
    if (supports_fp8_products(device_.stream(), fp8)) {
      ++counts_.fp8_products;
      return fp8;
    }
  }
  if (activations != QuantActivations::kFloat && cuda::fits_int8_products(stored)) {
    spec.dtype = DType::kI8;
    ++counts_.int8_products;
    return spec;
  }
  if (const std::optional<WeightSpec> tiles = tile_spec(stored)) {
    ++counts_.quantized;
    return *tiles;
  }
  ++counts_.expanded;
  return dense_spec(stored);
}

Result<WeightSpec> GpuPacking::choose_of_expert(const WeightSpec& stored,
                                                QuantActivations activations) {
  if (!stored.quant.is_quantized()) return choose(stored, activations);
  QUIRE_RETURN_IF_ERROR(check_quant(stored));
  const std::optional<WeightSpec> tiles = tile_spec(stored);
  if (tiles && !stored.quant.has_column_order) {
    ++counts_.quantized_of_experts;
    return *tiles;
  }
  ++counts_.expanded_of_experts;
  return dense_spec(stored);
}

void GpuPacking::expand_unlike_experts(const std::vector<WeightSlot>& slots) {
  // The layer and part of matrices that one kernel multiplies: false for gates and up projections,
  // true for down projections.
  using Stage = std::pair<int32_t, bool>;
  std::map<Stage, const WeightSpec*> first;
  std::set<Stage> unlike;
  const auto for_each_expert = [&](const auto& f) {
    for (const WeightSlot& slot : slots) {
      if (slot.matrix == nullptr || slot.expert < 0) continue;
      if (slot.matrix->n == 0) continue;  // it is another rank's
      f(Stage{slot.layer, slot.parts.front().role == TensorRole::kExpertDown},
        slot.matrix->parts.front().spec);
    }
  };
  for_each_expert([&](const Stage& stage, const WeightSpec& spec) {
    const WeightSpec* expected = first.try_emplace(stage, &spec).first->second;
    if (spec.quant != expected->quant) unlike.insert(stage);
  });
  for_each_expert([&](const Stage& stage, WeightSpec& spec) {
    if (!spec.quant.is_quantized() || !unlike.contains(stage)) return;
    spec = dense_spec(spec);
    --counts_.quantized_of_experts;
    ++counts_.expanded_of_experts;
  });
}

int64_t GpuPacking::packed_bytes(const WeightSpec& spec) const {
  if (is_of_bytes(spec)) return cuda::fp8_weight_layout(spec).num_bytes;
  if (spec.quant.is_quantized()) return cuda::quant_weight_layout(spec).num_bytes;
  return spec.n * spec.k * size_bytes(DType::kBF16);
}

// Tiles can only be packed whole.
bool GpuPacking::may_stack(const WeightSpec& spec, int64_t rows) const {
  if (!spec.quant.is_quantized() || is_of_bytes(spec)) return true;
  return !spec.quant.has_column_order && rows % cuda::kQuantTileOutputs == 0;
}

void GpuPacking::write(void* to, const void* from, int64_t num_bytes) {
  upload_.copy(to, from, num_bytes);
}

void GpuPacking::pack_weight_rows(const PackedWeight& weight, const WeightRows& rows) {
  if (rows.dtype != DType::kBF16 && !rows.transposed) return convert(weight, rows);
  cuda::for_each_piece(weight, rows, [&](int64_t offset, const void* data, int64_t num_bytes) {
    upload_.copy(at(weight, offset), data, num_bytes);
  });
}

// Converts rows of another float type, on all threads.
void GpuPacking::convert(const PackedWeight& weight, const WeightRows& rows) {
  const int64_t k = weight.spec.k;
  const int64_t at_once = std::max<int64_t>(1, kConvertedElements / k);
  for (int64_t first = 0; first < rows.num_rows; first += at_once) {
    PackedWeight own = weight;
    own.spec.n = std::min(at_once, rows.num_rows - first);
    expanded_.resize(static_cast<size_t>(own.spec.n * k));
    team_.run([&](int thread) {
      const WorkRange mine = split_work(own.spec.n, 1, thread, team_.size());
      const auto* from = static_cast<const std::byte*>(rows.rows) +
                         (first + mine.begin) * k * size_bytes(rows.dtype);
      const WeightRows part{.rows = from,
                            .dtype = rows.dtype,
                            .first_row = mine.begin,
                            .num_rows = mine.end - mine.begin};
      cuda::for_each_piece(own, part, [&](int64_t offset, const void* data, int64_t num_bytes) {
        std::memcpy(reinterpret_cast<std::byte*>(expanded_.data()) + offset, data,
                    static_cast<size_t>(num_bytes));
      });
    });
    upload_.copy(at(weight, (rows.first_row + first) * k * 2), expanded_.data(),
                 own.spec.n * k * 2);
  }
}

void GpuPacking::pack_quant_rows(const PackedWeight& weight, const QuantSpec& stored,
                                 const QuantRows& rows) {
  if (is_of_bytes(weight.spec)) return pack_bytes(weight, rows);
  if (weight.spec.quant.is_quantized()) return pack_tiles(weight, stored, rows);
  expand(weight, stored, rows);
}

void GpuPacking::pack_quant_columns(const PackedWeight& weight, const int32_t* source) {
  const int64_t k = weight.spec.k;
  if (!weight.spec.quant.is_quantized()) {
    order_.assign(source, source + k);
    return;
  }
  upload_.copy(at(weight, cuda::quant_weight_layout(weight.spec).order_at), source,
               k * int64_t{sizeof(int32_t)});
}

void GpuPacking::pack_bytes(const PackedWeight& weight, const QuantRows& rows) {
  const WeightSpec& spec = weight.spec;
  SimplerRows simpler(spec.quant, spec.k);  // scales in float32
  const QuantRows values = simpler.of(rows);
  const int64_t count = rows.num_rows * spec.k;
  const uint8_t* codes = values.codes;
  if (cuda::has_int8_products(spec)) {  // the codes are integers plus 128
    packed_.assign(codes, codes + count);
    for (uint8_t& code : packed_) code ^= 0x80;
    codes = packed_.data();
  }
  upload_.copy(at(weight, rows.first_row * spec.k), codes, count);
  pack_scales(weight, rows.first_row, rows.num_rows, static_cast<const float*>(values.scales));
}

// Copies scales [rows][groups] group by group. Where the layout needs an even number of groups, the
// additional one has zeros.
void GpuPacking::pack_scales(const PackedWeight& weight, int64_t first_row, int64_t num_rows,
                             const float* scales) {
  const cuda::Fp8WeightLayout layout = cuda::fp8_weight_layout(weight.spec);
  const int64_t groups = weight.spec.quant.num_groups(weight.spec.k);
  scales_.resize(static_cast<size_t>(num_rows));
  for (int64_t group = 0; group < cuda::fp8_groups(weight.spec); ++group) {
    for (int64_t row = 0; row < num_rows; ++row) {
      scales_[static_cast<size_t>(row)] = group < groups ? scales[row * groups + group] : 0.0f;
    }
    const int64_t to = group * layout.scale_stride + first_row;
    upload_.copy(at(weight, layout.scales_at + to * int64_t{sizeof(float)}), scales_.data(),
                 num_rows * int64_t{sizeof(float)});
  }
}

// Packs the rows as a weight of their own, and then copies its pieces to their places in the whole
// one.
void GpuPacking::pack_tiles(const PackedWeight& weight, const QuantSpec& stored,
                            const QuantRows& rows) {
  WeightSpec own = weight.spec;
  own.n = rows.num_rows;
  WeightSpec source = own;
  source.quant = stored;
  packed_.assign(static_cast<size_t>(cuda::quant_weight_layout(own).num_bytes), 0);
  team_.run([&](int thread) {
    const WorkRange mine = split_work(rows.num_rows, cuda::kQuantTileOutputs, thread, team_.size());
    if (mine.begin == mine.end) return;
    QuantRows part = part_of(rows, source, mine.begin, mine.end - mine.begin);
    SimplerRows simpler(stored, own.k);
    if (own.quant != stored) part = simpler.of(part);
    part.first_row = mine.begin;
    cuda::pack_quant_weight({own, packed_.data()}, part);
  });
  for (const cuda::QuantPiece& piece :
       cuda::quant_pieces(weight.spec, rows.first_row, rows.num_rows)) {
    upload_.copy(at(weight, piece.to), packed_.data() + piece.from, piece.num_bytes);
  }
}

void GpuPacking::expand(const PackedWeight& weight, const QuantSpec& stored,
                        const QuantRows& rows) {
  const int64_t k = weight.spec.k;
  const WeightSpec source{.n = rows.num_rows, .k = k, .quant = stored};
  expanded_.resize(static_cast<size_t>(rows.num_rows * k));
  team_.run([&](int thread) {
    const WorkRange mine = split_work(rows.num_rows, 1, thread, team_.size());
    std::vector<float> values(static_cast<size_t>(k));
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      dequantize_rows(source, part_of(rows, source, row, 1), values.data());
      bfloat16* out = expanded_.data() + row * k;
      for (int64_t j = 0; j < k; ++j) {
        const int64_t column = stored.has_column_order ? order_[static_cast<size_t>(j)] : j;
        out[column] = to_bfloat16(values[static_cast<size_t>(j)]);
      }
    }
  });
  upload_.copy(at(weight, rows.first_row * k * 2), expanded_.data(), rows.num_rows * k * 2);
}

}  // namespace quire
