// LoraReader finds which matrices of a model an adapter's modules change, and reads its tensors in
// the model's order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "nn/adapters/lora_options.h"
#include "tensor/arena.h"
#include "weights/adapters/lora_files.h"
#include "weights/checkpoint.h"
#include "weights/names/name_map.h"

namespace quire {

// The update of some outputs of a matrix, while it is read. A rank's share of a matrix has some of
// the outputs and all inputs: then A is read whole, and only those rows of B.
struct LoraUpdate {
  const WeightSlot* slot = nullptr;
  const LoraModule* module = nullptr;
  std::vector<SlotPart> parts;
  std::optional<TensorRole> fused_role = {};
  std::vector<RowRange> kept = {};  // of the rows of `parts`; empty: all
  int64_t first_output = 0;
  int64_t num_outputs = 0;
  const float* b = nullptr;       // [num_outputs, rank], rows in the order of the model
  const float* vector = nullptr;  // [num_outputs]: bias or magnitudes

  // How many vectors of floats the kernels read, with one element for each output.
  int64_t num_vectors() const {
    return module->magnitude != nullptr ? 2 : module->bias != nullptr ? 1 : 0;
  }
};

// The modules that an adapter replaces as a whole, and its changes to the embeddings.
struct ReplacedWeights {
  struct Norm {
    const WeightSlot* weight = nullptr;  // the model's; either may be null
    const WeightSlot* bias = nullptr;
    const WholeModule* module = nullptr;
    float offset = 0.0f;  // added to each weight
  };
  const LoraModule* embedding_update = nullptr;
  const WeightSlot* embedding = nullptr;  // the model's, for `table` and `embedding_update`
  const WholeModule* table = nullptr;
  const WeightSlot* head = nullptr;
  const WholeModule* head_module = nullptr;
  std::vector<Norm> norms;
};

// Returns whether the matrix can have low-rank updates.
bool takes_updates(const WeightSlot& slot);

// Borrows the files and the slots. One thread may use it.
class LoraReader {
 public:
  LoraReader(const LoraFiles& files, const NameMap& names);

  // kInvalidArgument: the adapter changes a module that the model does not have, that cannot be
  // changed, or that has another shape.
  Status find(std::span<const WeightSlot> slots, const LoraOptions& options);
  // Reads `b` and `vector` of the updates, which live as long as the reader.
  Status read();

  const std::deque<LoraUpdate>& updates() const { return updates_; }
  const ReplacedWeights& replaced() const { return replaced_; }

 private:
  void flatten(const NameMap& names);
  void add_stacked_names();
  void count_experts(std::span<const WeightSlot> slots);
  Status add_matrix(const WeightSlot& slot);
  Status add(const WeightSlot& slot, TensorRole role, std::vector<SlotPart> parts, int64_t first);
  // Returns the module that changes the tensor of `entry` in this slot, or null if none does.
  Result<const LoraModule*> find_module(const WeightSlot& slot, const NameMapEntry& entry,
                                        int64_t rows);
  Result<const LoraModule*> find_stacked(const WeightSlot& slot, const NameMapEntry& entry,
                                         int64_t rows);
  // Cuts one expert's part out of a module that holds all experts.
  const LoraModule* cut_expert(const LoraModule& module, const std::string& parameter,
                               bool is_swapped, int32_t expert);
  // Makes a tensor [rows, columns] whose element (i, j) is at(i, j), computed from another tensor.
  template <class At>
  const RawTensor* gather(const RawTensor& from, int64_t rows, int64_t columns, const At& at);
  Status find_whole(const WeightSlot& slot);
  Status add_norm(const WeightSlot& slot, const NameMapEntry& entry, const WholeModule& module);
  Status check_all_used(const LoraOptions& options) const;
  bool is_elsewhere(std::string_view module, const LoraOptions& options) const;
  void put(RawTensor tensor, std::string name);

  const LoraFiles& files_;
  float norm_offset_;
  std::vector<NameMapEntry> entries_;
  std::deque<std::string> stacked_names_;  // names that entries_ refers to
  std::vector<NamePrefix> prefixes_;
  std::map<std::string, const LoraModule*, std::less<>> modules_;
  std::map<std::string, const WholeModule*, std::less<>> whole_;
  std::map<int32_t, int64_t> num_experts_;  // by layer
  std::set<const void*> used_;
  std::set<const LoraModule*> put_;  // modules whose tensors are in tensors_
  // By name of the parameter, and expert.
  std::map<std::pair<std::string, int32_t>, const LoraModule*> cut_;
  std::deque<LoraModule> own_modules_;
  std::deque<RawTensor> own_tensors_;
  std::deque<std::vector<std::byte>> own_bytes_;
  std::deque<LoraUpdate> updates_;
  ReplacedWeights replaced_;
  std::vector<RawTensor> tensors_;
  Arena arena_;
};

}  // namespace quire
