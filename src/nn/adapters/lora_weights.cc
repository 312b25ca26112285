#include "nn/adapters/lora_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kernels/api/packed/unpack.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

// Of layers, what stands beside attention, mixer and MLP.
constexpr TensorRole kBeside[] = {TensorRole::kLayerInputGate, TensorRole::kLayerInputUp,
                                  TensorRole::kStreamRouter,   TensorRole::kStreamPredict,
                                  TensorRole::kStreamCorrect,  TensorRole::kLaurelDown,
                                  TensorRole::kLaurelUp,       TensorRole::kBlockOut};

bool takes_updates(const WeightSlot& slot) {
  return slot.matrix != nullptr && slot.layer >= 0 && slot.expert < 0 &&
         std::find(std::begin(kBeside), std::end(kBeside), slot.parts.front().role) ==
             std::end(kBeside);
}

// `num_vectors`: of floats, one for each output.
int64_t part_bytes(int64_t rank, int64_t inputs, int64_t outputs, int64_t num_vectors,
                   DType dtype) {
  const int64_t size = size_bytes(dtype);
  return Arena::padded(rank * inputs * size) +
         Arena::padded(lora_b_elements(outputs, rank) * size) +
         num_vectors * Arena::padded(outputs * 4);
}

// A bias, or the gains of updates and of what they are added to (DoRA); never all three.
constexpr int64_t kMostVectors = 2;

int64_t num_vectors(const LoraModule& module) {
  return module.magnitude != nullptr ? 2 : module.bias != nullptr ? 1 : 0;
}

// The update of some outputs of a matrix, while it is read. Of a rank's share of a matrix, which has
// some of the outputs and all inputs, A is whole and of B those rows are read.
struct Update {
  const WeightSlot* slot = nullptr;
  const LoraModule* module = nullptr;
  std::vector<SlotPart> parts;
  std::optional<TensorRole> fused_role;
  std::vector<RowRange> kept = {};  // of the rows of `parts`; empty: all
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  const float* b = nullptr;       // [num_outputs, rank], rows in the order of the model
  const float* vector = nullptr;  // [num_outputs]: bias or magnitudes
};

// Finds the matrices that an adapter's modules change, and brings the rows of B and of biases into
// the order of the model: they lie as those of the checkpoint's weights do, so its reader does it.
class LoraReader {
 public:
  LoraReader(const LoraFiles& files, const NameMap& names)
      : prefixes_(names.prefixes.begin(), names.prefixes.end()) {
    for (const LoraModule& module : files.modules()) modules_[module.name] = &module;
    flatten(names);
    if (prefixes_.empty()) prefixes_.emplace_back();
  }

  Status find(std::span<const WeightSlot> slots, const LoraOptions& options) {
    for (const WeightSlot& slot : slots) {
      if (!takes_updates(slot)) continue;
      if (slot.fused_role) add(slot, *slot.fused_role, slot.parts, 0);
      if (slot.fused_role && slot.parts.size() == 1) continue;
      int64_t first = 0;
      for (const SlotPart& part : slot.parts) {
        add(slot, part.role, {part}, first);
        first += part.rows;
      }
    }
    for (const auto& [name, module] : modules_) {
      if (!used_.contains(module) && !is_elsewhere(name, options)) {
        return invalid_argument(
            "module '{}': the model has no such linear, or one that takes no updates (experts, "
            "head, embeddings, what stands beside attention and MLP)",
            name);
      }
    }
    return {};
  }

  // Fills `b` and `vector` of the updates, which stay until the reader goes.
  Status read() {
    std::vector<WeightSlot> slots;
    for (Update& update : updates_) {
      const LoraModule& module = *update.module;
      if (module.num_inputs() != update.slot->matrix->k) {
        return invalid_argument("module '{}': expected {} inputs, got {}", module.name,
                                update.slot->matrix->k, module.num_inputs());
      }
      WeightSlot slot{.layer = update.slot->layer,
                      .parts = update.parts,
                      .fused_role = update.fused_role,
                      .head_rows = update.slot->head_rows,
                      .row_groups = update.slot->row_groups,
                      .vector_columns = module.rank,
                      .kept = update.kept,
                      .vector = &update.b};
      slots.push_back(slot);
      if (num_vectors(module) == 0) continue;
      slot.bias = true;
      slot.vector_columns = 1;
      slot.vector = &update.vector;
      slots.push_back(slot);
    }
    VectorsOnly packing;
    const NameMap names{.entries = entries_, .prefixes = prefixes_};
    const TensorSource source(std::move(tensors_));
    QUIRE_ASSIGN_OR_RETURN(const LoadPlan plan,
                           resolve_checkpoint(slots, names, QuantConfig(), source, packing));
    QUIRE_ASSIGN_OR_RETURN(arena_, Arena::create(plan.arena_bytes()));
    return load_checkpoint(plan, arena_, {});
  }

  const std::deque<Update>& updates() const { return updates_; }

 private:
  // Vectors alone are read: nothing is packed.
  class VectorsOnly final : public WeightPacking {
   public:
    Result<WeightSpec> choose(const WeightSpec& stored, QuantActivations) override {
      return stored;
    }
    int64_t packed_bytes(const WeightSpec&) const override { return 0; }
    bool may_stack(const WeightSpec&, int64_t) const override { return false; }
    bool host_reads_tables() const override { return true; }
    void pack_weight_rows(const PackedWeight&, const WeightRows&) override {}
    void pack_quant_rows(const PackedWeight&, const QuantSpec&, const QuantRows&) override {}
    void pack_quant_columns(const PackedWeight&, const int32_t*) override {}
    void write(void* to, const void* from, int64_t num_bytes) override {
      std::memcpy(to, from, static_cast<size_t>(num_bytes));
    }
    Status finish() override { return {}; }
  };

  // Whether another stage has the layer that is named: the first number between two dots.
  static bool is_elsewhere(std::string_view module, const LoraOptions& options) {
    for (size_t at = 0; at < module.size();) {
      const size_t end = std::min(module.find('.', at), module.size());
      int64_t layer = 0;
      const char* const first = module.data() + at;
      const char* const last = module.data() + end;
      const auto [parsed, error] = std::from_chars(first, last, layer);
      if (error == std::errc() && parsed == last) {
        const bool is_own = layer >= options.own_layers.begin && layer < options.own_layers.end;
        return layer >= 0 && layer < options.num_layers && !is_own;
      }
      at = end + 1;
    }
    return false;
  }

  // B is stored [outputs, rank], however the checkpoint stores the matrix.
  void flatten(const NameMap& names) {
    std::set<TensorRole> known;
    for (const NameMapEntry& entry : entries_) known.insert(entry.role);
    for (NameMapEntry entry : names.entries) {
      if (known.contains(entry.role)) continue;
      entry.transposed = false;
      entries_.push_back(entry);
    }
    if (names.base != nullptr) flatten(*names.base);
  }

  void add(const WeightSlot& slot, TensorRole role, std::vector<SlotPart> parts, int64_t first) {
    for (const NameMapEntry& entry : entries_) {
      if (entry.role != role || entry.bare || entry.runs != RowRuns::kNone) continue;
      const LoraModule* const module = find_module(entry, slot.layer);
      if (module == nullptr) continue;
      Update update{.slot = &slot, .module = module, .parts = std::move(parts)};
      if (slot.fused_role == role) update.fused_role = role;
      keep_outputs(slot, first, update);
      if (update.num_outputs > 0) updates_.push_back(std::move(update));
      if (!used_.insert(module).second) return;
      put(*module->b, tensor_name(entry, prefixes_.front(), slot.layer, "weight"));
      const RawTensor* const vector =
          module->magnitude != nullptr ? module->magnitude : module->bias;
      if (vector != nullptr)
        put(*vector, tensor_name(entry, prefixes_.front(), slot.layer, "bias"));
      return;
    }
  }

  // The update is one of the stacked rows from `first` on, of which the slot may have only some.
  static void keep_outputs(const WeightSlot& slot, int64_t first, Update& update) {
    int64_t rows = 0;
    for (const SlotPart& part : update.parts) rows += part.rows;
    if (slot.kept.empty()) {
      update.first_output = first;
      update.num_outputs = rows;
      return;
    }
    int64_t num_before = 0;
    for (const RowRange& range : slot.kept) {
      const int64_t begin = std::max(range.begin, first), end = std::min(range.end, first + rows);
      if (begin < end) {
        if (update.kept.empty()) update.first_output = num_before + begin - range.begin;
        update.kept.push_back({begin - first, end - first});
        update.num_outputs += end - begin;
      }
      num_before += range.size();
    }
  }

  const LoraModule* find_module(const NameMapEntry& entry, int32_t layer) const {
    for (const NamePrefix& prefix : prefixes_) {
      std::string name = tensor_name(entry, prefix, layer, "");
      name.pop_back();  // the dot before the suffix
      const auto found = modules_.find(name);
      if (found != modules_.end()) return found->second;
    }
    return nullptr;
  }

  void put(RawTensor tensor, std::string name) {
    tensor.name = std::move(name);
    if (tensor.shape.back() == 1 && tensor.shape.size() == 2) tensor.shape.pop_back();
    tensors_.push_back(std::move(tensor));
  }

  std::vector<NameMapEntry> entries_;
  std::vector<NamePrefix> prefixes_;
  std::map<std::string, const LoraModule*, std::less<>> modules_;
  std::set<const LoraModule*> used_;
  std::deque<Update> updates_;
  std::vector<RawTensor> tensors_;
  Arena arena_;
};

// Row i of the model's head among those of the adapter.
int64_t stored_row(const Update& update, int64_t row, bool pairs_rows) {
  const TensorRole role = update.parts.front().role;
  const int64_t head = update.slot->head_rows;
  if (!pairs_rows || head == 0 || (role != TensorRole::kQ && role != TensorRole::kK)) return row;
  const int64_t in_head = row % head;
  return row - in_head + in_head % 2 * (head / 2) + in_head / 2;
}

// Calls use(n, row n of the matrix) for its outputs [begin, end), in order.
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

// DoRA: an output's row of W + scale B A is brought to the length that its magnitude says. With
// gain = magnitude / length, y = gain W x + gain scale B A x; the base has added W x already.
void add_gains(const Update& update, const LoraOptions& options, Arena& arena, LoraPart& part) {
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

LoraPart pack(const Update& update, const LoraOptions& options, Arena& arena) {
  const LoraModule& module = *update.module;
  const int64_t rank = module.rank, outputs = update.num_outputs, size = size_bytes(options.dtype);
  void* const a = arena.allocate_bytes(rank * module.num_inputs() * size);
  for (int64_t i = 0; i < rank * module.num_inputs(); ++i) {
    write_element(a, options.dtype, i, read_element(module.a->data.data(), *module.a->dtype, i));
  }
  std::vector<std::byte> rows(static_cast<size_t>(outputs * rank * size));
  for (int64_t n = 0; n < outputs; ++n) {
    const float* const row = update.b + stored_row(update, n, options.pairs_rows) * rank;
    for (int64_t r = 0; r < rank; ++r)
      write_element(rows.data(), options.dtype, n * rank + r, row[r]);
  }
  void* const b = arena.allocate_bytes(lora_b_elements(outputs, rank) * size);
  pack_lora_b(rows.data(), outputs, rank, size, b);
  LoraPart part{.first_output = update.first_output,
                .num_outputs = outputs,
                .rank = rank,
                .a = a,
                .b = b,
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

}  // namespace

Result<LoraWeights> LoraWeights::load(const LoraFiles& files, std::span<const WeightSlot> slots,
                                      const NameMap& names, const LoraOptions& options) {
  LoraReader reader(files, names);
  Status status = reader.find(slots, options);
  if (status.ok()) status = reader.read();
  if (!status.ok()) return status.with_context(files.source());
  int64_t bytes = 0;
  for (const Update& update : reader.updates()) {
    bytes += part_bytes(update.module->rank, update.module->num_inputs(), update.num_outputs,
                        num_vectors(*update.module), options.dtype);
  }
  LoraWeights lora;
  QUIRE_ASSIGN_OR_RETURN(lora.arena_, Arena::create(bytes));
  for (const Update& update : reader.updates())
    lora.parts_[update.slot->matrix].push_back(pack(update, options, lora.arena_));
  lora.scales_base_ = files.config().has_magnitudes();
  return lora;
}

std::span<const LoraPart> LoraWeights::parts(const MatrixWeight& matrix) const {
  const auto found = parts_.find(&matrix);
  if (found == parts_.end()) return {};
  return found->second;
}

int64_t LoraWeights::most_bytes(std::span<const WeightSlot> slots, int64_t rank, DType dtype) {
  int64_t bytes = 0;
  for (const WeightSlot& slot : slots) {
    if (!takes_updates(slot)) continue;
    for (const SlotPart& part : slot.parts)
      bytes += part_bytes(rank, slot.matrix->k, std::min(part.rows, slot.kept_rows()), kMostVectors,
                          dtype);
  }
  return bytes;
}

LoraLimits LoraWeights::limits(std::span<const WeightSlot> slots, int64_t rank, DType dtype) {
  LoraLimits limits{.dtype = dtype};
  for (const WeightSlot& slot : slots) {
    if (!takes_updates(slot)) continue;
    limits.max_ranks = std::max(limits.max_ranks, rank * std::ssize(slot.parts));
    limits.max_inputs = std::max(limits.max_inputs, slot.matrix->k);
    limits.max_outputs = std::max(limits.max_outputs, slot.matrix->n);
  }
  return limits;
}

}  // namespace quire
