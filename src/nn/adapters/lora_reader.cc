#include "nn/adapters/lora_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "weights/weight_packing.h"

namespace quire {
namespace {

constexpr std::string_view kExpertEnd = ".{e}";
constexpr std::string_view kBaseLayer = ".base_layer";
constexpr std::string_view kWeight = ".weight";
// The first version of PEFT, as AdapterConfig::peft_version(), in which A of a stacked parameter
// has the size of the parameter's inputs. Older versions took the parameter's second dimension for
// the inputs.
constexpr int32_t kVersionOfInputsFirst = 21;

// The roles of a layer's matrices beside attention, mixer and MLP.
constexpr TensorRole kBeside[] = {TensorRole::kLayerInputGate, TensorRole::kLayerInputUp,
                                  TensorRole::kStreamRouter,   TensorRole::kStreamPredict,
                                  TensorRole::kStreamCorrect,  TensorRole::kLaurelDown,
                                  TensorRole::kLaurelUp,       TensorRole::kBlockOut};

constexpr TensorRole kExperts[] = {TensorRole::kExpertGate, TensorRole::kExpertUp,
                                   TensorRole::kExpertDown};

constexpr TensorRole kNorms[] = {TensorRole::kEmbeddingNorm, TensorRole::kFinalNorm,
                                 TensorRole::kInputNorm,     TensorRole::kPostAttentionNorm,
                                 TensorRole::kPreMlpNorm,    TensorRole::kPostMlpNorm};

template <class Roles>
bool is_one_of(const Roles& roles, TensorRole role) {
  return std::find(std::begin(roles), std::end(roles), role) != std::end(roles);
}

// Returns whether the slot is the head. A model's head may be its embeddings, but adapters use the
// head's own name.
bool is_head(const WeightSlot& slot) {
  const TensorRole role = slot.parts.front().role;
  return slot.matrix != nullptr && slot.layer < 0 &&
         (role == TensorRole::kLmHead || role == TensorRole::kTokenEmbedding);
}
TensorRole role_of(const WeightSlot& slot, const SlotPart& part) {
  return is_head(slot) ? TensorRole::kLmHead : part.role;
}

Status wrong_shape(const std::string& module, std::string_view what, int64_t expected,
                   int64_t got) {
  return invalid_argument("module '{}': expected {} {}, got {}", module, expected, what, got);
}

// Reads vectors only and packs nothing.
class VectorsOnly final : public WeightPacking {
 public:
  Result<WeightSpec> choose(const WeightSpec& stored, QuantActivations) override { return stored; }
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

// The update covers the stacked rows from `first` on, of which the slot may have only some.
void keep_outputs(const WeightSlot& slot, int64_t first, LoraUpdate& update) {
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

}  // namespace

bool takes_updates(const WeightSlot& slot) {
  const TensorRole role = slot.parts.front().role;
  if (slot.matrix == nullptr) return false;
  if (slot.layer < 0) return is_head(slot);
  return slot.expert < 0 ? !is_one_of(kBeside, role) : is_one_of(kExperts, role);
}

LoraReader::LoraReader(const LoraFiles& files, const NameMap& names)
    : files_(files),
      norm_offset_(names.norm_offset),
      prefixes_(names.prefixes.begin(), names.prefixes.end()) {
  for (const LoraModule& module : files.modules()) modules_[module.name] = &module;
  for (const WholeModule& module : files.whole_modules()) whole_[module.name] = &module;
  flatten(names);
  add_stacked_names();
  if (prefixes_.empty()) prefixes_.emplace_back();
}

// B is stored as [outputs, rank], however the checkpoint stores the matrix.
void LoraReader::flatten(const NameMap& names) {
  std::set<TensorRole> known;
  for (const NameMapEntry& entry : entries_) known.insert(entry.role);
  for (NameMapEntry entry : names.entries) {
    if (known.contains(entry.role)) continue;
    entry.transposed = false;
    entries_.push_back(entry);
  }
  if (names.base != nullptr) flatten(*names.base);
}

// A checkpoint may have a layer's experts one by one while the model that PEFT trained has all of
// them in two parameters, under "mlp", whatever the checkpoint's name is.
void LoraReader::add_stacked_names() {
  constexpr std::string_view kExperts = "experts.{e}.";
  std::set<std::string> modules;
  for (const NameMapEntry& entry : entries_) {
    const size_t at = entry.pattern.find(kExperts);
    if (entry.role == TensorRole::kExpertUp && at != std::string_view::npos)
      modules.insert(std::string(entry.pattern.substr(0, at)) + "experts");
  }
  if (modules.empty()) return;
  modules.insert("layers.{}.mlp.experts");
  for (const std::string& module : modules) {
    const std::string_view gate_up = stacked_names_.emplace_back(module + ".gate_up_proj.{e}");
    const std::string_view down = stacked_names_.emplace_back(module + ".down_proj.{e}");
    entries_.push_back(
        {.role = TensorRole::kExpertGate, .pattern = gate_up, .rows = {.part = 0, .parts = 2}});
    entries_.push_back(
        {.role = TensorRole::kExpertUp, .pattern = gate_up, .rows = {.part = 1, .parts = 2}});
    entries_.push_back({.role = TensorRole::kExpertDown, .pattern = down});
  }
  entries_.push_back({.role = TensorRole::kRouter, .pattern = "layers.{}.mlp.gate"});
}

void LoraReader::count_experts(std::span<const WeightSlot> slots) {
  for (const WeightSlot& slot : slots) {
    if (!is_one_of(kExperts, slot.parts.front().role)) continue;
    int64_t& count = num_experts_[slot.layer];
    count = std::max<int64_t>(count, slot.expert + 1);
  }
}

Status LoraReader::find(std::span<const WeightSlot> slots, const LoraOptions& options) {
  count_experts(slots);
  for (const WeightSlot& slot : slots) {
    if (takes_updates(slot)) QUIRE_RETURN_IF_ERROR(add_matrix(slot));
    QUIRE_RETURN_IF_ERROR(find_whole(slot));
  }
  return check_all_used(options);
}

Status LoraReader::add_matrix(const WeightSlot& slot) {
  if (slot.fused_role) QUIRE_RETURN_IF_ERROR(add(slot, *slot.fused_role, slot.parts, 0));
  if (slot.fused_role && slot.parts.size() == 1) return {};
  int64_t first = 0;
  for (const SlotPart& part : slot.parts) {
    QUIRE_RETURN_IF_ERROR(add(slot, role_of(slot, part), {part}, first));
    first += part.rows;
  }
  return {};
}

Status LoraReader::add(const WeightSlot& slot, TensorRole role, std::vector<SlotPart> parts,
                       int64_t first) {
  for (SlotPart& part : parts) part.role = role_of(slot, part);
  int64_t rows = 0;
  for (const SlotPart& part : parts) rows += part.rows;
  for (const NameMapEntry& entry : entries_) {
    if (entry.role != role || entry.bare || entry.runs != RowRuns::kNone) continue;
    QUIRE_ASSIGN_OR_RETURN(const LoraModule* const module, find_module(slot, entry, rows));
    if (module == nullptr) continue;
    if (module->num_inputs() != slot.matrix->k)
      return wrong_shape(module->name, "inputs", slot.matrix->k, module->num_inputs());
    if (slot.expert >= 0 && module->magnitude != nullptr)
      return unimplemented("module '{}': DoRA of experts is not supported", module->name);
    LoraUpdate update{.slot = &slot, .module = module, .parts = std::move(parts)};
    if (slot.fused_role == role) update.fused_role = role;
    keep_outputs(slot, first, update);
    used_.insert(module);
    if (update.num_outputs == 0) return {};
    updates_.push_back(std::move(update));
    if (!put_.insert(module).second) return {};
    const auto name = [&](std::string_view suffix) {
      return tensor_name(entry, prefixes_.front(), slot.layer, suffix, slot.expert);
    };
    put(*module->b, name("weight"));
    const RawTensor* const vector = module->magnitude != nullptr ? module->magnitude : module->bias;
    if (vector != nullptr) put(*vector, name("bias"));
    return {};
  }
  return {};
}

Result<const LoraModule*> LoraReader::find_module(const WeightSlot& slot, const NameMapEntry& entry,
                                                  int64_t rows) {
  if (slot.expert >= 0 && entry.pattern.ends_with(kExpertEnd))
    return find_stacked(slot, entry, rows);
  for (const NamePrefix& prefix : prefixes_) {
    std::string name = tensor_name(entry, prefix, slot.layer, "", slot.expert);
    name.pop_back();  // the dot before the suffix
    const auto found = modules_.find(name);
    if (found == modules_.end() || found->second->is_embedding) continue;
    if (found->second->num_experts == 1) return found->second;
    return invalid_argument("tensor '{}': expected {} rows, got {}", found->second->a->name,
                            found->second->rank, found->second->a->shape[0]);
  }
  return nullptr;
}

// A parameter "experts.down_proj" is changed by a module "experts", or by "experts.base_layer" if
// another parameter of the same module is changed, too. The shapes tell which module belongs to
// which parameter.
Result<const LoraModule*> LoraReader::find_stacked(const WeightSlot& slot,
                                                   const NameMapEntry& entry, int64_t rows) {
  const int64_t inputs = slot.matrix->k, outputs = rows * entry.rows.parts;
  for (const NamePrefix& prefix : prefixes_) {
    std::string parameter = tensor_name(entry, prefix, slot.layer, "", slot.expert);
    parameter.resize(parameter.size() - fmt::format(".{}.", slot.expert).size());
    const std::string outer = parameter.substr(0, parameter.rfind('.'));
    for (const std::string& name : {parameter, outer, outer + std::string(kBaseLayer)}) {
      const auto found = modules_.find(name);
      if (found == modules_.end() || found->second->parameters.empty()) continue;
      const LoraModule& module = *found->second;
      const bool fits = module.num_inputs() == inputs && module.num_outputs() == outputs;
      const bool fits_swapped = module.num_inputs() == outputs && module.num_outputs() == inputs;
      if (!fits && !fits_swapped) continue;
      if (fits && fits_swapped && files_.config().peft_version() < kVersionOfInputsFirst) {
        return unimplemented(
            "module '{}': its matrices are square, and PEFT before 0.{} had them the other way "
            "round: save the adapter with a newer version",
            name, kVersionOfInputsFirst);
      }
      const std::string known_as = name == parameter ? parameter + std::string(kWeight) : parameter;
      const int64_t rank = files_.config().rank_of(known_as);
      if (module.a->shape[0] != rank * num_experts_.at(slot.layer)) {
        return invalid_argument("tensor '{}': expected {} experts of rank {}, got {} rows",
                                module.a->name, num_experts_.at(slot.layer), rank,
                                module.a->shape[0]);
      }
      used_.insert(&module);
      if (slot.kept_rows() == 0) return nullptr;  // the expert is another rank's
      return cut_expert(module, known_as, !fits, slot.expert);
    }
  }
  return nullptr;
}

// A has the rows of one expert after the other; B has, for each of its ranks, the columns of all
// experts. With `is_swapped`, W is the transpose of their product.
const LoraModule* LoraReader::cut_expert(const LoraModule& module, const std::string& parameter,
                                         bool is_swapped, int32_t expert) {
  const LoraModule*& known = cut_[{parameter, expert}];
  if (known != nullptr) return known;
  const int64_t rank = files_.config().rank_of(parameter);
  const int64_t num_experts = module.a->shape[0] / rank;
  const int64_t width = module.num_inputs(), height = module.num_outputs();
  const auto in_a = [&](int64_t r, int64_t k) { return (expert * rank + r) * width + k; };
  const auto in_b = [&](int64_t n, int64_t r) { return (n * rank + r) * num_experts + expert; };
  LoraModule& own = own_modules_.emplace_back();
  own.name = parameter;
  own.rank = rank;
  own.scale = files_.config().scale_of(parameter);
  if (is_swapped) {
    own.a = gather(*module.b, rank, height, [&](int64_t r, int64_t k) { return in_b(k, r); });
    own.b = gather(*module.a, width, rank, [&](int64_t n, int64_t r) { return in_a(r, n); });
  } else {
    own.a = gather(*module.a, rank, width, in_a);
    own.b = gather(*module.b, height, rank, in_b);
  }
  return known = &own;
}

template <class At>
const RawTensor* LoraReader::gather(const RawTensor& from, int64_t rows, int64_t columns,
                                    const At& at) {
  const auto size = static_cast<size_t>(size_bytes(*from.dtype));
  std::vector<std::byte>& bytes = own_bytes_.emplace_back();
  bytes.reserve(static_cast<size_t>(rows * columns) * size);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const auto element = from.data.subspan(static_cast<size_t>(at(i, j)) * size, size);
      bytes.insert(bytes.end(), element.begin(), element.end());
    }
  }
  RawTensor& tensor = own_tensors_.emplace_back(from);
  tensor.shape = {rows, columns};
  tensor.data = bytes;
  return &tensor;
}

Status LoraReader::find_whole(const WeightSlot& slot) {
  const SlotPart& part = slot.parts.front();
  const TensorRole role = role_of(slot, part);
  const bool is_table = slot.table != nullptr && role == TensorRole::kTokenEmbedding;
  const bool is_norm = slot.vector != nullptr && is_one_of(kNorms, role);
  if (!is_table && !is_norm && !is_head(slot)) return {};
  for (const NameMapEntry& entry : entries_) {
    if (entry.role != role || entry.constant) continue;
    for (const NamePrefix& prefix : prefixes_) {
      std::string name = tensor_name(entry, prefix, slot.layer, "");
      if (!entry.bare) name.pop_back();
      const auto update = modules_.find(name);
      if (is_table && update != modules_.end() && update->second->is_embedding) {
        used_.insert(replaced_.embedding_update = update->second);
        replaced_.embedding = &slot;
      }
      const auto found = whole_.find(name);
      if (found == whole_.end()) continue;
      used_.insert(found->second);
      if (is_norm) {
        QUIRE_RETURN_IF_ERROR(add_norm(slot, entry, *found->second));
      } else if (is_table) {
        replaced_.embedding = &slot;
        replaced_.table = found->second;
      } else {
        replaced_.head = &slot;
        replaced_.head_module = found->second;
      }
    }
  }
  return {};
}

Status LoraReader::add_norm(const WeightSlot& slot, const NameMapEntry& entry,
                            const WholeModule& module) {
  const RawTensor* const tensor = slot.bias ? module.bias : module.weight;
  if (tensor == nullptr) {
    return invalid_argument("module '{}': expected its {} too", module.name,
                            slot.bias ? "bias" : "weight");
  }
  if (tensor->num_elements() != slot.rows())
    return wrong_shape(module.name, "elements", slot.rows(), tensor->num_elements());
  auto& norms = replaced_.norms;
  if (norms.empty() || norms.back().module != &module)
    norms.push_back({.module = &module, .offset = entry.offset + norm_offset_});
  (slot.bias ? norms.back().bias : norms.back().weight) = &slot;
  return {};
}

Status LoraReader::check_all_used(const LoraOptions& options) const {
  for (const auto& [name, module] : modules_) {
    if (used_.contains(module) || is_elsewhere(name, options)) continue;
    if (!module->parameters.empty()) {
      return invalid_argument(
          "module '{}': the model has no such experts, or their matrices are not of {} inputs and "
          "{} outputs",
          name, module->num_inputs(), module->num_outputs());
    }
    return invalid_argument(
        "module '{}': the model has no such linear, or one that takes no updates (what stands "
        "beside attention and MLP)",
        name);
  }
  for (const auto& [name, module] : whole_) {
    if (used_.contains(module) || is_elsewhere(name, options)) continue;
    return invalid_argument(
        "module '{}': only head, embeddings and norms of the model may be replaced as a whole",
        name);
  }
  return {};
}

// Returns whether another stage has the module: one of another layer, by the first number between
// two dots of its name, or one before or behind all layers.
bool LoraReader::is_elsewhere(std::string_view module, const LoraOptions& options) const {
  if (options.num_layers == 0) return false;
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
  constexpr TensorRole kOutside[] = {TensorRole::kTokenEmbedding, TensorRole::kEmbeddingNorm,
                                     TensorRole::kFinalNorm, TensorRole::kLmHead};
  for (const NameMapEntry& entry : entries_) {
    if (!is_one_of(kOutside, entry.role)) continue;
    for (const NamePrefix& prefix : prefixes_) {
      const std::string name = tensor_name(entry, prefix, -1, "");
      if (std::string_view(name).substr(0, name.size() - 1) == module) return true;
    }
  }
  return false;
}

Status LoraReader::read() {
  std::vector<WeightSlot> slots;
  for (LoraUpdate& update : updates_) {
    const LoraModule& module = *update.module;
    WeightSlot slot{.layer = update.slot->layer,
                    .expert = update.slot->expert,
                    .parts = update.parts,
                    .fused_role = update.fused_role,
                    .head_rows = update.slot->head_rows,
                    .row_groups = update.slot->row_groups,
                    .vector_columns = module.rank,
                    .kept = update.kept,
                    .vector = &update.b};
    slots.push_back(slot);
    if (update.num_vectors() == 0) continue;
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

void LoraReader::put(RawTensor tensor, std::string name) {
  tensor.name = std::move(name);
  if (tensor.shape.back() == 1 && tensor.shape.size() == 2) tensor.shape.pop_back();
  tensors_.push_back(std::move(tensor));
}

}  // namespace quire
