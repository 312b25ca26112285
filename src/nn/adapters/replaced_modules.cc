#include "nn/adapters/replaced_modules.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/threads/thread_team.h"
#include "kernels/api/linear.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

bool is_float(const RawTensor& tensor) {
  return tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
}

Status check_shape(const RawTensor& tensor, const std::vector<int64_t>& shape) {
  if (is_float(tensor) && tensor.shape == shape) return {};
  return invalid_argument("tensor '{}': expected floats of shape [{}], got {} of [{}]", tensor.name,
                          fmt::join(shape, ", "), tensor.type_name, fmt::join(tensor.shape, ", "));
}

float element(const RawTensor& tensor, int64_t index) {
  return read_element(tensor.data.data(), *tensor.dtype, index);
}

WeightSpec head_spec(const ReplacedWeights& found, const LoraOptions& options) {
  return {.n = found.head->kept_rows(),
          .k = found.head->matrix->k,
          .dtype = options.dtype,
          .compute = options.compute};
}

// Returns the rows that a slot keeps of a stack.
std::vector<RowRange> rows_of(const WeightSlot& slot) {
  return slot.kept.empty() ? std::vector<RowRange>{{0, slot.rows()}} : slot.kept;
}

Result<LinearWeights> load_head(const ReplacedWeights& found, const LoraOptions& options,
                                Arena& arena) {
  constexpr int64_t kRowsAtOnce = 1024;
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, ThreadTeam::create({.num_threads = 1}));
  const WeightSpec spec = head_spec(found, options);
  LinearWeights head;
  head.weight = {.n = spec.n, .k = spec.k, .parts = {{spec, nullptr}}};
  PackedWeight& packed = head.weight.parts.front();
  packed.data = arena.allocate_bytes(packed_weight_bytes(spec));
  HostStream stream(team, options.isa);
  const RawTensor& weight = *found.head_module->weight;
  const RawTensor* const bias = found.head_module->bias;
  auto* const own_bias = bias == nullptr ? nullptr : arena.allocate<float>(spec.n);
  const int64_t row_bytes = spec.k * size_bytes(*weight.dtype);
  std::vector<std::byte> aligned;
  int64_t row = 0;
  for (const RowRange& range : rows_of(*found.head)) {
    for (int64_t first = range.begin; first < range.end; first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, range.end - first);
      const auto stored = weight.data.subspan(static_cast<size_t>(first * row_bytes),
                                              static_cast<size_t>(count * row_bytes));
      aligned.assign(stored.begin(), stored.end());
      pack_weight_rows(
          stream, packed,
          {.rows = aligned.data(), .dtype = *weight.dtype, .first_row = row, .num_rows = count});
      for (int64_t i = 0; bias != nullptr && i < count; ++i)
        own_bias[row + i] = element(*bias, first + i);
      row += count;
    }
  }
  head.bias = own_bias;
  return head;
}

EmbeddingUpdate load_update(const LoraModule& module, Arena& arena) {
  EmbeddingUpdate update{
      .rank = module.rank, .vocab_size = module.num_inputs(), .hidden_size = module.num_outputs()};
  auto* const a = arena.allocate<float>(update.vocab_size * update.rank);
  auto* const b = arena.allocate<float>(update.rank * update.hidden_size);
  for (int64_t token = 0; token < update.vocab_size; ++token) {
    for (int64_t r = 0; r < update.rank; ++r)
      a[token * update.rank + r] = module.scale * element(*module.a, r * update.vocab_size + token);
  }
  for (int64_t r = 0; r < update.rank; ++r) {
    for (int64_t i = 0; i < update.hidden_size; ++i)
      b[r * update.hidden_size + i] = element(*module.b, i * update.rank + r);
  }
  update.a = a;
  update.b = b;
  return update;
}

TableWeight load_table(const RawTensor& tensor, DType dtype, Arena& arena) {
  const int64_t count = tensor.num_elements();
  void* const out = arena.allocate_bytes(count * size_bytes(dtype));
  for (int64_t i = 0; i < count; ++i) write_element(out, dtype, i, element(tensor, i));
  return {.data = out, .dtype = dtype};
}

const float* load_norm(const WeightSlot* slot, const RawTensor* tensor, float offset,
                       Arena& arena) {
  if (slot == nullptr) return nullptr;
  auto* const out = arena.allocate<float>(slot->rows());
  for (int64_t i = 0; i < slot->rows(); ++i) out[i] = (element(*tensor, i) + offset) * slot->scale;
  return out;
}

}  // namespace

Status ReplacedModules::check(const ReplacedWeights& found) {
  if (found.embedding != nullptr) {
    const int64_t rows = found.embedding->rows(), columns = found.embedding->table_columns;
    if (found.table != nullptr && (found.table->weight == nullptr || found.table->bias != nullptr))
      return invalid_argument("module '{}': expected its weight alone", found.table->name);
    if (found.table != nullptr)
      QUIRE_RETURN_IF_ERROR(check_shape(*found.table->weight, {rows, columns}));
    if (const LoraModule* const update = found.embedding_update; update != nullptr) {
      if (update->magnitude != nullptr)
        return unimplemented("module '{}': DoRA of embeddings is not supported", update->name);
      if (update->num_inputs() != rows || update->num_outputs() != columns) {
        return invalid_argument("module '{}': expected {} tokens of {} elements, got {} of {}",
                                update->name, rows, columns, update->num_inputs(),
                                update->num_outputs());
      }
    }
  }
  if (found.head != nullptr) {
    const WholeModule& module = *found.head_module;
    if (module.weight == nullptr)
      return invalid_argument("module '{}': expected its weight too", module.name);
    QUIRE_RETURN_IF_ERROR(check_shape(*module.weight, {found.head->rows(), found.head->matrix->k}));
    if (module.bias != nullptr)
      QUIRE_RETURN_IF_ERROR(check_shape(*module.bias, {found.head->rows()}));
  }
  for (const ReplacedWeights::Norm& norm : found.norms) {
    if ((norm.module->bias != nullptr) != (norm.bias != nullptr))
      return invalid_argument("module '{}': the model's norm has no bias", norm.module->name);
    QUIRE_RETURN_IF_ERROR(check_shape(*norm.module->weight, {norm.weight->rows()}));
    if (norm.bias != nullptr)
      QUIRE_RETURN_IF_ERROR(check_shape(*norm.module->bias, {norm.bias->rows()}));
  }
  return {};
}

int64_t ReplacedModules::bytes(const ReplacedWeights& found, const LoraOptions& options) {
  int64_t bytes = 0;
  if (found.embedding != nullptr) {
    const int64_t rows = found.embedding->rows(), columns = found.embedding->table_columns;
    if (found.table != nullptr) bytes += Arena::padded(rows * columns * size_bytes(options.dtype));
    if (found.embedding_update != nullptr)
      bytes += EmbeddingUpdate::bytes(found.embedding_update->rank, rows, columns);
  }
  if (found.head != nullptr) {
    const WeightSpec spec = head_spec(found, options);
    bytes += Arena::padded(packed_weight_bytes(spec));
    if (found.head_module->bias != nullptr) bytes += Arena::padded(spec.n * 4);
  }
  for (const ReplacedWeights::Norm& norm : found.norms) {
    bytes += Arena::padded(norm.weight->rows() * 4);
    if (norm.bias != nullptr) bytes += Arena::padded(norm.bias->rows() * 4);
  }
  return bytes;
}

Status ReplacedModules::load(const ReplacedWeights& found, const LoraOptions& options,
                             Arena& arena) {
  if (found.table != nullptr) table_ = load_table(*found.table->weight, options.dtype, arena);
  if (found.embedding_update != nullptr) update_ = load_update(*found.embedding_update, arena);
  if (found.head != nullptr) {
    head_ = found.head->matrix;
    QUIRE_ASSIGN_OR_RETURN(own_head_, load_head(found, options, arena));
  }
  for (const ReplacedWeights::Norm& norm : found.norms) {
    norms_[*norm.weight->vector] = {load_norm(norm.weight, norm.module->weight, norm.offset, arena),
                                    load_norm(norm.bias, norm.module->bias, 0.0f, arena)};
  }
  return {};
}

const NormWeights* ReplacedModules::norm(const NormWeights& base) const {
  const auto found = norms_.find(base.weight);
  return found == norms_.end() || base.weight == nullptr ? nullptr : &found->second;
}

}  // namespace quire
