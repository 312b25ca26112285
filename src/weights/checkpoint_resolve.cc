// resolve_checkpoint() finds the tensors of a checkpoint that fill the slots of a model.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "weights/cache_scales.h"
#include "weights/checkpoint.h"
#include "weights/names/name_prefix.h"

namespace quire {
namespace {

bool aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(dtype)) == 0;
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Removes extents of 1 in front, which carry no meaning, and in a vector also those in the middle
// (the taps of a convolution).
std::vector<int64_t> without_ones(std::span<const int64_t> shape, bool is_vector) {
  std::vector<int64_t> kept;
  for (const int64_t extent : shape) {
    if (extent != 1 || (!is_vector && !kept.empty())) kept.push_back(extent);
  }
  return kept;
}

Status check_tensor(const RawTensor& tensor, const std::vector<int64_t>& shape, bool is_vector) {
  if (without_ones(tensor.shape, is_vector) != without_ones(shape, is_vector)) {
    return invalid_argument("tensor '{}': expected shape [{}], got [{}]", tensor.name,
                            fmt::join(shape, ", "), fmt::join(tensor.shape, ", "));
  }
  if (!tensor.dtype || !is_float(*tensor.dtype)) {
    return invalid_argument(
        "tensor '{}': expected element type F32, F16, BF16 or a quantized one that can be read, "
        "got {}",
        tensor.name, tensor.type_name);
  }
  return {};
}

bool all_zero(const RawTensor& tensor) {
  return std::all_of(tensor.data.begin(), tensor.data.end(),
                     [](std::byte b) { return b == std::byte{0}; });
}

Result<WeightSpec> packed_spec(const ResolvedSlot::Part& part, ComputeType compute, bool is_expert,
                               WeightPacking& packing) {
  const QuantMatrix& matrix = *part.quant;
  const WeightSpec stored{
      .n = part.rows, .k = matrix.columns(), .compute = compute, .quant = matrix.spec()};
  Result<WeightSpec> chosen = is_expert ? packing.choose_of_expert(stored, matrix.activations())
                                        : packing.choose(stored, matrix.activations());
  if (chosen.ok()) return chosen;
  return chosen.status().with_context(fmt::format("tensor '{}'", matrix.tensors()[0]->name));
}

// Returns the first of `rows` rows in a tensor that several parts share.
int64_t first_row(const SharedRows& shared, int64_t rows) {
  return shared.part * (shared.interleaved ? int64_t{1} : rows);
}
int64_t row_step(const SharedRows& shared) { return shared.interleaved ? shared.parts : 1; }

// Cuts the parts down to the rows that the slot keeps.
void keep_rows(const std::vector<RowRange>& kept, std::vector<ResolvedSlot::Part>& parts) {
  std::vector<ResolvedSlot::Part> all = std::exchange(parts, {});
  for (const RowRange& range : kept) {
    int64_t first = 0;  // row of the part in the stack
    for (const ResolvedSlot::Part& part : all) {
      const RowRange rows{std::max(range.begin - first, int64_t{0}),
                          std::min(range.end - first, part.rows)};
      if (rows.begin < rows.end) parts.push_back(part.cut(rows));
      first += part.rows;
    }
  }
}

// Resolver finds the tensors of slots and records which ones were used.
class Resolver {
 public:
  Resolver(const NameMap& names, const QuantConfig& quantization, const TensorSource& source,
           WeightPacking& packing)
      : names_(names), quantization_(quantization), source_(source), packing_(packing) {
    prefix_ = find_prefix(names, source);
  }

  Result<ResolvedSlot> resolve(const WeightSlot& slot) {
    // Layers on pooled rows are numbered independently of the model's layers.
    if (slot.parts.front().role != TensorRole::kSentenceDense)
      last_layer_ = std::max(last_layer_, slot.layer);
    ResolvedSlot resolved{.slot = &slot};
    if (const NameMapEntry* fused = find_fused(slot)) {
      const SlotPart all{fused->role, slot.rows()};
      QUIRE_RETURN_IF_ERROR(resolve_part(slot, all, *fused, resolved.parts));
      if (fused->order != QkvOrder::kStacked)
        QUIRE_RETURN_IF_ERROR(regroup(slot, fused->order, resolved));
    } else {
      for (const SlotPart& part : slot.parts) {
        const NameMapEntry* entry = find_entry(slot, part.role);
        QUIRE_CHECK(entry != nullptr, "role {} has no name", static_cast<int>(part.role));
        if (entry->runs != RowRuns::kNone) {
          QUIRE_RETURN_IF_ERROR(resolve_runs(slot, part, *entry, resolved.parts));
          continue;
        }
        QUIRE_RETURN_IF_ERROR(resolve_part(slot, part, *entry, resolved.parts));
      }
    }
    if (!slot.kept.empty()) keep_rows(slot.kept, resolved.parts);
    if (slot.matrix != nullptr) {
      QUIRE_RETURN_IF_ERROR(stack_parts(slot, resolved));
    } else if (slot.table != nullptr) {
      QUIRE_RETURN_IF_ERROR(place_table(slot, resolved));
    }
    return resolved;
  }

  // Refuses tensors that the model does not use: they could change what it computes.
  Status check_leftovers() const {
    for (const RawTensor& tensor : source_.tensors()) {
      const std::string_view name = tensor.name;
      if (used_.contains(name) || is_spare_head(name) || is_idle(tensor)) continue;
      if (names_.ignores_later_layers && layer_of_name(names_, prefix_, name) > last_layer_)
        continue;
      const bool ignored = std::any_of(
          names_.ignored.begin(), names_.ignored.end(),
          [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
      if (!ignored) {
        return invalid_argument(
            "tensor '{}' [{}]: this architecture as configured has no use for it", name,
            fmt::join(tensor.shape, ", "));
      }
    }
    return {};
  }

 private:
  // A head that repeats the tied token embedding is not used; read_model_config() has compared the
  // two.
  bool is_spare_head(std::string_view name) const {
    const NameMapEntry* head = find_role(names_, TensorRole::kLmHead);
    return head != nullptr && name == tensor_name(*head, prefix_, -1, "weight");
  }

  // Returns whether a tensor is one that quantizing tools add to every module without need: zero
  // biases, and ranges of the KV cache, which only an fp8 cache uses (read_cache_scales()).
  bool is_idle(const RawTensor& tensor) const {
    if (is_cache_scale(tensor.name)) return true;
    constexpr std::string_view kBias = ".bias";
    if (!tensor.name.ends_with(kBias)) return false;
    const std::string_view module =
        std::string_view(tensor.name).substr(0, tensor.name.size() - kBias.size());
    return is_quantized_module(source_, module) && all_zero(tensor);
  }

  std::string name_of(const WeightSlot& slot, const NameMapEntry& entry) const {
    return tensor_name(entry, prefix_, slot.layer, slot.bias ? "bias" : "weight", slot.expert);
  }
  static std::string module_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

  bool exists(const WeightSlot& slot, const NameMapEntry& entry) const {
    const std::string name = name_of(slot, entry);
    return source_.find(name) != nullptr || (slot.vector == nullptr && !entry.transposed &&
                                             is_quantized_module(source_, module_of(name)));
  }

  // Returns the name of a role that the checkpoint uses, or its first name when it uses none.
  const NameMapEntry* find_entry(const WeightSlot& slot, TensorRole role) const {
    const NameMapEntry* first = find_role(names_, role);
    if (first == nullptr) return nullptr;
    for (const NameMapEntry* entry : entries_of(names_, role)) {
      if (exists(slot, *entry)) return entry;
    }
    return first;
  }

  // Returns the entry of the one tensor that holds all parts of the slot, if the checkpoint has it
  // or if there is no other way to name the parts; nullptr otherwise.
  const NameMapEntry* find_fused(const WeightSlot& slot) const {
    const NameMapEntry* fused = slot.fused_role ? find_role(names_, *slot.fused_role) : nullptr;
    if (fused == nullptr || find_role(names_, slot.parts.front().role) == nullptr) return fused;
    return exists(slot, *fused) ? fused : nullptr;
  }

  // Appends the tensors that hold the part: one, or one per head.
  Status resolve_part(const WeightSlot& slot, const SlotPart& part, const NameMapEntry& entry,
                      std::vector<ResolvedSlot::Part>& parts) {
    constexpr std::string_view kHead = "{head}";
    const std::string name = name_of(slot, entry);
    const size_t hole = name.find(kHead);
    if (hole == std::string::npos) {
      QUIRE_ASSIGN_OR_RETURN(ResolvedSlot::Part found, find_part(slot, part, entry, name));
      parts.push_back(std::move(found));
      return {};
    }
    for (int64_t head = 0; head < part.rows / slot.head_rows; ++head) {
      std::string of_head = name;
      of_head.replace(hole, kHead.size(), std::to_string(head));
      QUIRE_ASSIGN_OR_RETURN(ResolvedSlot::Part found,
                             find_part(slot, {part.role, slot.head_rows}, entry, of_head));
      parts.push_back(std::move(found));
    }
    return {};
  }

  // Appends the runs of rows of a part in the tensor that it shares with other parts.
  Status resolve_runs(const WeightSlot& slot, const SlotPart& part, const NameMapEntry& entry,
                      std::vector<ResolvedSlot::Part>& parts) {
    const int64_t groups = entry.runs == RowRuns::kPerGroup ? slot.row_groups : 1;
    int64_t before = 0, stored = 0;  // rows of all parts
    for (const SlotPart& other : slot.parts) {
      const NameMapEntry* neighbour = find_entry(slot, other.role);
      if (neighbour == nullptr || neighbour->pattern != entry.pattern) continue;
      if (other.role == part.role) before = stored;
      stored += other.rows;
    }
    for (int64_t group = 0; group < groups; ++group) {
      QUIRE_ASSIGN_OR_RETURN(ResolvedSlot::Part whole,
                             find_part(slot, {part.role, stored}, entry, name_of(slot, entry)));
      parts.push_back(
          cut_run(std::move(whole), group * stored / groups + before / groups, part.rows / groups));
    }
    return {};
  }

  // Returns rows [first, first + rows) of a tensor that holds several parts.
  static ResolvedSlot::Part cut_run(ResolvedSlot::Part part, int64_t first, int64_t rows) {
    if (part.quant != nullptr) {
      part.first_row = first;
    } else {
      const size_t row_bytes = part.data.size() / static_cast<size_t>(part.rows);
      part.data = part.data.subspan(static_cast<size_t>(first) * row_bytes,
                                    static_cast<size_t>(rows) * row_bytes);
      part.stored_rows = rows;
    }
    part.rows = rows;
    return part;
  }

  Result<ResolvedSlot::Part> find_part(const WeightSlot& slot, const SlotPart& part,
                                       const NameMapEntry& entry, const std::string& name) {
    if (slot.vector == nullptr && is_quantized_module(source_, module_of(name))) {
      return resolve_quantized(slot, part, entry, module_of(name));
    }
    if (slot.bias && !entry.has_bias) return ResolvedSlot::Part{.rows = part.rows};
    if (entry.constant) return ResolvedSlot::Part{.rows = part.rows, .offset = *entry.constant};
    QUIRE_ASSIGN_OR_RETURN(const RawTensor* tensor, source_.require(name));
    const int64_t stored_rows = part.rows * entry.rows.parts;
    std::vector<int64_t> shape{stored_rows};
    const bool transposed = entry.transposed && slot.matrix != nullptr;
    if (slot.matrix != nullptr) {
      shape = transposed ? std::vector<int64_t>{slot.matrix->k, stored_rows}
                         : std::vector<int64_t>{stored_rows, slot.matrix->k};
    } else if (slot.table != nullptr) {
      shape.push_back(slot.table_columns);
    } else if (slot.vector_columns > 1) {
      shape.push_back(slot.vector_columns);
    } else if (slot.head_rows > 0 && tensor->shape.size() == 2) {
      shape = {part.rows / slot.head_rows, slot.head_rows};  // head by head
    } else if (part.role == TensorRole::kStateNorm && tensor->shape.size() == 2 &&
               tensor->num_elements() == part.rows) {
      shape = tensor->shape;  // group by group
    }
    QUIRE_RETURN_IF_ERROR(check_tensor(*tensor, shape, slot.vector != nullptr));
    used_.insert(tensor->name);
    const float offset =
        slot.bias ? 0.0f : entry.offset + (is_norm(part.role) ? names_.norm_offset : 0.0f);
    return ResolvedSlot::Part{.tensor = tensor,
                              .data = tensor->data,
                              .rows = part.rows,
                              .transposed = transposed,
                              .first_row = first_row(entry.rows, part.rows),
                              .row_step = row_step(entry.rows),
                              .stored_rows = stored_rows,
                              .is_log = entry.is_log,
                              .unit_rows = entry.unit_rows,
                              .offset = offset};
  }

  // Reorders rows that are stored group by group to the model's order: q, k, v.
  static Status regroup(const WeightSlot& slot, QkvOrder order, ResolvedSlot& resolved) {
    const ResolvedSlot::Part all = std::move(resolved.parts.front());
    if (all.transposed) {
      return unimplemented(
          "layer {}: weights that store their inputs first, and whose queries, keys and values lie "
          "head by head, cannot be read",
          slot.layer);
    }
    constexpr int64_t kQuarters = 4;
    const bool by_quarters = order == QkvOrder::kQueryValueKey;
    const int64_t groups = by_quarters ? kQuarters : slot.parts[1].rows / slot.head_rows;
    if (slot.parts[1].rows / slot.head_rows % groups != 0) {
      return invalid_argument("layer {}: expected a number of heads that {} divides, got {}",
                              slot.layer, groups, slot.parts[1].rows / slot.head_rows);
    }
    const int64_t query_rows = slot.parts[0].rows / groups;  // of one group
    const int64_t kv_rows = slot.parts[1].rows / groups;
    resolved.parts.clear();
    const auto take = [&](int64_t first, int64_t rows) {
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t begin = group * (query_rows + 2 * kv_rows) + first;
        resolved.parts.push_back(cut_run(all, begin, rows));
      }
    };
    take(0, query_rows);
    take(query_rows + (by_quarters ? kv_rows : 0), kv_rows);
    take(query_rows + (by_quarters ? 0 : kv_rows), kv_rows);
    return {};
  }

  Result<ResolvedSlot::Part> resolve_quantized(const WeightSlot& slot, const SlotPart& part,
                                               const NameMapEntry& entry,
                                               const std::string& module) {
    if (entry.transposed) {
      return unimplemented(
          "module '{}': quantized weights of layers that store their inputs first "
          "cannot be read",
          module);
    }
    if (entry.unit_rows) {
      return unimplemented(
          "module '{}': quantized weights whose rows are to be divided by their lengths cannot be "
          "read",
          module);
    }
    const int64_t columns = slot.matrix != nullptr ? slot.matrix->k : slot.table_columns;
    QUIRE_ASSIGN_OR_RETURN(
        std::unique_ptr<QuantMatrix> matrix,
        open_quant_matrix(source_, quantization_, module, {part.rows * entry.rows.parts, columns}));
    for (const RawTensor* tensor : matrix->tensors()) used_.insert(tensor->name);
    return ResolvedSlot::Part{.quant = std::move(matrix),
                              .rows = part.rows,
                              .first_row = first_row(entry.rows, part.rows),
                              .row_step = row_step(entry.rows)};
  }

  // Joins neighbouring parts that are packed alike into one packed weight.
  Status stack_parts(const WeightSlot& slot, const ResolvedSlot& resolved) const {
    MatrixWeight& matrix = *slot.matrix;
    const WeightSpec dense = matrix.parts.front().spec;
    matrix.parts.clear();
    for (const ResolvedSlot::Part& part : resolved.parts) {
      WeightSpec spec = dense;
      spec.n = part.rows;
      if (part.quant != nullptr) {
        QUIRE_ASSIGN_OR_RETURN(spec,
                               packed_spec(part, slot.quant_compute, slot.expert >= 0, packing_));
      } else if (slot.keeps_dtype && packing_.takes_any_float()) {
        spec.dtype = *part.tensor->dtype;
      }
      const bool alike = !slot.keeps_parts && !matrix.parts.empty() &&
                         packing_.may_stack(spec, matrix.parts.back().spec.n) &&
                         matrix.parts.back().spec.dtype == spec.dtype &&
                         matrix.parts.back().spec.compute == spec.compute &&
                         matrix.parts.back().spec.quant == spec.quant;
      if (alike) {
        matrix.parts.back().spec.n += part.rows;
      } else {
        matrix.parts.push_back({spec, nullptr});
      }
    }
    return {};
  }

  Status place_table(const WeightSlot& slot, ResolvedSlot& resolved) {
    const ResolvedSlot::Part& part = resolved.parts.front();
    const bool in_place = packing_.host_reads_tables();
    if (part.quant == nullptr) {
      resolved.borrowed = in_place && *part.tensor->dtype == slot.table->dtype &&
                          aligned(part.tensor->data.data(), *part.tensor->dtype);
      return {};
    }
    // Tables that are added to rows of the first table are read as floats.
    const TensorRole role = slot.parts.front().role;
    const bool is_added =
        role == TensorRole::kPositionEmbedding || role == TensorRole::kTokenTypeEmbedding;
    if (!in_place || is_added) return {};
    // Rows are looked up one by one, so the way they would be multiplied does not matter.
    WeightSpec spec{.n = part.rows, .k = slot.table_columns, .quant = part.quant->spec()};
    QUIRE_RETURN_IF_ERROR(packed_spec(part, ComputeType::kF32, false, packing_).status());
    slot.table->packed = PackedWeight{spec, nullptr};
    return {};
  }

  const NameMap& names_;
  const QuantConfig& quantization_;
  const TensorSource& source_;
  WeightPacking& packing_;
  NamePrefix prefix_;
  std::set<std::string_view> used_;
  int32_t last_layer_ = -1;
};

// Returns whether look-ups can read the matrix: it is packed, or holds plain rows if the host does
// not read tables.
bool reads_as_table(const TableWeight& table, const MatrixWeight& matrix,
                    const WeightPacking& packing) {
  if (table.packed) return true;
  const WeightSpec& spec = matrix.parts.front().spec;
  return !packing.host_reads_tables() && matrix.parts.size() == 1 && !spec.quant.is_quantized() &&
         spec.dtype == table.dtype;
}

// Packs tables that are also a matrix (the token embedding as a tied head) only once.
void share_tables(LoadPlan& plan) {
  for (ResolvedSlot& table : plan.slots) {
    if (table.slot->table == nullptr) continue;
    for (const ResolvedSlot& other : plan.slots) {
      const bool same = other.slot->matrix != nullptr && other.slot->layer == table.slot->layer &&
                        other.slot->parts.size() == 1 && other.slot->kept.empty() &&
                        other.slot->parts.front().role == table.slot->parts.front().role;
      if (same && reads_as_table(*table.slot->table, *other.slot->matrix, *plan.packing))
        table.shared = other.slot->matrix;
    }
  }
}

}  // namespace

Result<LoadPlan> resolve_checkpoint(const std::vector<WeightSlot>& slots, const NameMap& names,
                                    const QuantConfig& quantization, const TensorSource& source,
                                    WeightPacking& packing) {
  Resolver resolver(names, quantization, source, packing);
  LoadPlan plan{.packing = &packing};
  plan.slots.reserve(slots.size());
  for (const WeightSlot& slot : slots) {
    QUIRE_ASSIGN_OR_RETURN(ResolvedSlot resolved, resolver.resolve(slot));
    plan.slots.push_back(std::move(resolved));
  }
  QUIRE_RETURN_IF_ERROR(resolver.check_leftovers());
  share_tables(plan);
  return plan;
}

Status choose_packing(const std::vector<WeightSlot>& slots, WeightPacking& packing) {
  for (const WeightSlot& slot : slots) {
    if (slot.matrix == nullptr) continue;
    for (PackedWeight& part : slot.matrix->parts) {
      constexpr auto kFloat = QuantActivations::kFloat;
      QUIRE_ASSIGN_OR_RETURN(part.spec, slot.expert >= 0
                                            ? packing.choose_of_expert(part.spec, kFloat)
                                            : packing.choose(part.spec, kFloat));
    }
  }
  return {};
}

}  // namespace quire
