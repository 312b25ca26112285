#include "nn/adapters/lora_weights.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "kernels/api/packed/unpack.h"
#include "nn/adapters/lora_reader.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

// `num_vectors` counts vectors of floats, with one element per output.
int64_t part_bytes(int64_t rank, int64_t inputs, int64_t outputs, int64_t num_vectors, DType dtype,
                   LoraLayout layout) {
  const int64_t size = size_bytes(dtype);
  return Arena::padded(lora_a_elements(rank, inputs, layout) * size) +
         Arena::padded(lora_b_elements(outputs, rank, layout) * size) +
         num_vectors * Arena::padded(outputs * 4);
}

// A bias, or the gains of updates and of the matrix's own outputs (DoRA); never all three.
constexpr int64_t kMostVectors = 2;

// Returns which row of the adapter is row i of the model's matrix.
int64_t stored_row(const LoraUpdate& update, int64_t row, bool pairs_rows) {
  const TensorRole role = update.parts.front().role;
  const int64_t head = update.slot->head_rows;
  if (!pairs_rows || head == 0 || (role != TensorRole::kQ && role != TensorRole::kK)) return row;
  const int64_t in_head = row % head;
  return row - in_head + in_head % 2 * (head / 2) + in_head / 2;
}

// Calls use(n, row n of the matrix) for the outputs [begin, end), in order.
template <typename Use>
void for_each_row(Isa isa, const MatrixWeight& matrix, int64_t begin, int64_t end, Use&& use) {
  std::vector<float> row(static_cast<size_t>(matrix.k));
  int64_t first = 0;
  for (const PackedWeight& weight : matrix.parts) {
    const int64_t last = first + weight.spec.n;
    for (int64_t n = std::max(begin, first); n < std::min(end, last); ++n) {
      unpack_weight_row(isa, weight, n - first, row.data());
      use(n, row);
    }
    first = last;
  }
}

// DoRA scales each row of W + scale B A to the length that its magnitude says. With gain =
// magnitude / length, y = gain W x + gain scale B A x; the base model has already added W x.
void add_gains(const LoraUpdate& update, const LoraOptions& options, Arena& arena, LoraPart& part) {
  const LoraModule& module = *update.module;
  const int64_t rank = module.rank, inputs = module.num_inputs();
  std::vector<float> a(static_cast<size_t>(rank * inputs));
  for (int64_t i = 0; i < rank * inputs; ++i)
    a[static_cast<size_t>(i)] = read_element(module.a->data.data(), *module.a->dtype, i);
  auto* const gain = arena.allocate<float>(part.num_outputs);
  auto* const base_gain = arena.allocate<float>(part.num_outputs);
  const int64_t begin = update.first_output, end = begin + part.num_outputs;
  for_each_row(options.isa, *update.slot->matrix, begin, end,
               [&](int64_t n, std::vector<float>& row) {
                 const int64_t stored = stored_row(update, n - begin, options.pairs_rows);
                 for (int64_t r = 0; r < rank; ++r) {
                   const float b = module.scale * update.b[stored * rank + r];
                   const float* const from = a.data() + r * inputs;
                   for (int64_t k = 0; k < inputs; ++k) row[static_cast<size_t>(k)] += b * from[k];
                 }
                 double square = 0.0;
                 for (const float x : row) square += double{x} * x;
                 const double length = std::sqrt(square);
                 const double g = length > 0.0 ? update.vector[stored] / length : 0.0;
                 gain[n - begin] = static_cast<float>(g);
                 base_gain[n - begin] = static_cast<float>(g - 1.0);
               });
  part.gain = gain;
  part.base_gain = base_gain;
}

const void* pack_a(const LoraModule& module, const LoraOptions& options, Arena& arena) {
  const int64_t rank = module.rank, inputs = module.num_inputs();
  const int64_t count = lora_a_elements(rank, inputs, options.layout);
  void* const a = arena.allocate_bytes(count * size_bytes(options.dtype));
  for (int64_t i = 0; i < rank * inputs; ++i) {
    const int64_t at = i / inputs * (count / rank) + i % inputs;
    write_element(a, options.dtype, at, read_element(module.a->data.data(), *module.a->dtype, i));
  }
  return a;
}

// Packs the rows of B in the order of the model.
const void* pack_b(const LoraUpdate& update, const LoraOptions& options, Arena& arena) {
  const int64_t rank = update.module->rank, outputs = update.num_outputs;
  const int64_t size = size_bytes(options.dtype);
  const int64_t stride = options.layout == LoraLayout::kRows ? padded_lora_row(rank) : rank;
  std::vector<std::byte> rows(static_cast<size_t>(outputs * stride * size));
  for (int64_t n = 0; n < outputs; ++n) {
    const float* const row = update.b + stored_row(update, n, options.pairs_rows) * rank;
    for (int64_t r = 0; r < rank; ++r)
      write_element(rows.data(), options.dtype, n * stride + r, row[r]);
  }
  void* const b = arena.allocate_bytes(lora_b_elements(outputs, rank, options.layout) * size);
  if (options.layout == LoraLayout::kRows) {
    std::copy(rows.begin(), rows.end(), static_cast<std::byte*>(b));
  } else {
    pack_lora_b(rows.data(), outputs, rank, size, b);
  }
  return b;
}

LoraPart pack(const LoraUpdate& update, const LoraOptions& options, const void* a, Arena& arena) {
  const LoraModule& module = *update.module;
  const int64_t outputs = update.num_outputs;
  LoraPart part{.first_output = update.first_output,
                .num_outputs = outputs,
                .rank = module.rank,
                .a = a,
                .b = pack_b(update, options, arena),
                .scale = module.scale};
  if (module.bias != nullptr) {
    auto* const bias = arena.allocate<float>(outputs);
    for (int64_t n = 0; n < outputs; ++n)
      bias[n] = module.scale * update.vector[stored_row(update, n, options.pairs_rows)];
    part.bias = bias;
  }
  if (module.magnitude != nullptr) add_gains(update, options, arena, part);
  return part;
}

// Refuses what GPUs do not support: there, updates are added to products that are one kernel each,
// and only the device stores which rows an adapter has.
Status check_for_gpu(const LoraFiles& files, const LoraReader& reader) {
  const auto refuse = [](std::string_view module, std::string_view what) {
    return unimplemented(
        "module '{}': cuda: expected no {}, which works on CPUs only: use --device cpu", module,
        what);
  };
  const ReplacedWeights& replaced = reader.replaced();
  if (files.config().has_magnitudes())
    return refuse(files.modules().front().name, "DoRA (use_dora)");
  if (replaced.embedding_update != nullptr)
    return refuse(replaced.embedding_update->name, "update of the embeddings");
  for (const WholeModule* const module : {replaced.table, replaced.head_module}) {
    if (module != nullptr) return refuse(module->name, "module that is replaced as a whole");
  }
  if (!replaced.norms.empty())
    return refuse(replaced.norms.front().module->name, "norm that is replaced");
  for (const LoraUpdate& update : reader.updates()) {
    if (update.slot->expert >= 0) return refuse(update.module->name, "update of experts");
  }
  return {};
}

}  // namespace

Result<LoraWeights> LoraWeights::load(const LoraFiles& files, const DecoderWeights& weights,
                                      const NameMap& names, const LoraOptions& options) {
  LoraReader reader(files, names);
  Status status = reader.find(weights.slots(), options);
  if (status.ok() && options.layout == LoraLayout::kRows) status = check_for_gpu(files, reader);
  if (status.ok()) status = ReplacedModules::check(reader.replaced());
  if (status.ok()) status = reader.read();
  if (!status.ok()) return status.with_context(files.source());
  int64_t bytes = ReplacedModules::bytes(reader.replaced(), options);
  for (const LoraUpdate& update : reader.updates()) {
    bytes += part_bytes(update.module->rank, update.module->num_inputs(), update.num_outputs,
                        update.num_vectors(), options.dtype, options.layout);
  }
  if (bytes > options.max_bytes) {
    return resource_exhausted("{}: the adapter takes {} MiB, and {} MiB of --lora-memory are left",
                              files.source(), (bytes >> 20) + 1, options.max_bytes >> 20);
  }
  LoraWeights lora;
  QUIRE_ASSIGN_OR_RETURN(lora.arena_, Arena::create(bytes));
  lora.num_bytes_ = bytes;
  // The A matrices that several updates share.
  std::unordered_map<const LoraModule*, const void*> packed;
  for (const LoraUpdate& update : reader.updates()) {
    const void*& a = packed[update.module];
    if (a == nullptr) a = pack_a(*update.module, options, lora.arena_);
    lora.parts_[update.slot->matrix].push_back(pack(update, options, a, lora.arena_));
  }
  QUIRE_RETURN_IF_ERROR(lora.replaced_.load(reader.replaced(), options, lora.arena_));
  lora.scales_base_ = files.config().has_magnitudes();
  lora.list_experts(weights);
  return lora;
}

// Each of an expert's matrices has one part, so that every part is a whole matrix's.
void LoraWeights::list_experts(const DecoderWeights& weights) {
  experts_.resize(weights.num_layers());
  const auto part_of = [&](const LinearWeights& matrix) {
    const std::span<const LoraPart> found = parts(matrix.weight);
    return found.empty() ? nullptr : &found.front();
  };
  for (size_t layer = 0; layer < experts_.size(); ++layer) {
    std::vector<ExpertUpdate> updates;
    bool has_any = false;
    for (const ExpertsWeights::Expert& expert : weights.layer(layer).experts.slots) {
      updates.push_back({part_of(expert.gate), part_of(expert.up), part_of(expert.down)});
      const ExpertUpdate& last = updates.back();
      has_any = has_any || last.gate != nullptr || last.up != nullptr || last.down != nullptr;
    }
    if (has_any) experts_[layer] = std::move(updates);
    changes_experts_ = changes_experts_ || has_any;
  }
}

std::span<const LoraPart> LoraWeights::parts(const MatrixWeight& matrix) const {
  const auto found = parts_.find(&matrix);
  if (found == parts_.end()) return {};
  return found->second;
}

void LoraWeights::move_to(std::byte* to) {
  QUIRE_CHECK(has_updates_only(), "an adapter with more than updates stays where it is");
  const std::byte* const from = arena_.data();
  const auto moved = [&](auto*& pointer) {
    using Pointer = std::remove_reference_t<decltype(pointer)>;
    if (pointer == nullptr) return;
    const auto offset = reinterpret_cast<const std::byte*>(pointer) - from;
    pointer = reinterpret_cast<Pointer>(to + offset);
  };
  for (auto& [matrix, parts] : parts_) {
    for (LoraPart& part : parts) {
      moved(part.a);
      moved(part.b);
      moved(part.bias);
      moved(part.gain);
      moved(part.base_gain);
    }
  }
  arena_ = Arena();
}

LoraWeights::MostBytes LoraWeights::most_bytes(std::span<const WeightSlot> slots, int64_t rank,
                                               DType dtype, LoraLayout layout) {
  const bool is_for_gpu = layout == LoraLayout::kRows;
  MostBytes most;
  for (const WeightSlot& slot : slots) {
    if (is_for_gpu && (slot.table != nullptr || slot.expert >= 0)) continue;
    if (slot.table != nullptr && slot.parts.front().role == TensorRole::kTokenEmbedding)
      most.dense += EmbeddingUpdate::bytes(rank, slot.rows(), slot.table_columns);
    if (!takes_updates(slot)) continue;
    const bool is_expert = slot.expert >= 0;
    for (const SlotPart& part : slot.parts)
      (is_expert ? most.experts : most.dense) +=
          part_bytes(rank, slot.matrix->k, std::min(part.rows, slot.kept_rows()),
                     is_expert ? 1 : kMostVectors, dtype, layout);
  }
  return most;
}

LoraLimits LoraWeights::limits(std::span<const WeightSlot> slots, int64_t rank, DType dtype,
                               LoraLayout layout) {
  const bool is_for_gpu = layout == LoraLayout::kRows;
  if (is_for_gpu) rank = padded_lora_row(rank);
  LoraLimits limits{.dtype = dtype, .max_rank = rank};
  for (const WeightSlot& slot : slots) {
    if (!takes_updates(slot) || (is_for_gpu && slot.expert >= 0)) continue;
    limits.max_ranks = std::max(limits.max_ranks, rank * std::ssize(slot.parts));
    if (is_for_gpu || slot.expert >= 0) continue;  // no product of these is computed again
    limits.max_inputs = std::max(limits.max_inputs, slot.matrix->k);
    limits.max_outputs = std::max(limits.max_outputs, slot.matrix->n);
  }
  return limits;
}

}  // namespace quire
