// This file leads from tensors in files to weights in the layout of the kernels.
//
// A model says which weights it needs (WeightSlot) and how its checkpoints name them (NameMap).
// resolve_checkpoint() finds and checks every tensor before a byte is allocated, and asks the
// backend (WeightPacking) how each is packed; LoadPlan::arena_bytes() is what the weights will
// take; load_checkpoint() packs them there, fused parts into one matrix, and gives the mapped pages
// back as it goes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api/linear.h"
#include "tensor/arena.h"
#include "weights/files/tensor_source.h"
#include "weights/names/name_map.h"
#include "weights/quant/quant_config.h"
#include "weights/quant/quant_matrix.h"
#include "weights/tensors/raw_tensor.h"
#include "weights/weight_packing.h"

namespace quire {

class ThreadTeam;

// This is a matrix of the model, [n, k]: packed weights stacked along n. There is one, unless the
// checkpoint quantized the parts of a fused matrix in different ways.
struct MatrixWeight {
  int64_t n = 0;
  int64_t k = 0;
  std::vector<PackedWeight> parts = {};
};

// A table that is looked up by row: dense and row-major, or packed when the checkpoint quantized
// it (then `data` is null).
struct TableWeight {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::optional<PackedWeight> packed = {};
};

struct SlotPart {
  TensorRole role;
  int64_t rows;
};

// Rows [begin, end).
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// This is one weight of the model and where it goes. Exactly one of the three destinations is set;
// load_checkpoint() or fill_random() fills it. The slot borrows it.
struct WeightSlot {
  int32_t layer = -1;
  int32_t expert = -1;          // of the layer, when the weight is an expert's
  bool bias = false;            // the parts' ".bias", otherwise their ".weight"
  std::vector<SlotPart> parts;  // stacked in this order
  // When the checkpoint stores the stack as one tensor of this role, that is read instead of the
  // parts.
  std::optional<TensorRole> fused_role;
  int64_t head_rows = 0;       // of parts that consist of heads: of q, k, v and their norms
  float scale = 1.0f;          // of a vector: what its elements are multiplied by
  int64_t row_groups = 1;      // of parts that are stored group by group (RowRuns::kPerGroup)
  int64_t vector_columns = 1;  // of a vector: elements per row
  // Of a matrix or a vector: which of the stacked rows are read, in ascending order. Empty: all.
  std::vector<RowRange> kept = {};

  // Its n is kept_rows(), and it has one part, which says how a float matrix is packed. What the
  // checkpoint quantized is packed as it is, in parts that resolve_checkpoint() sets.
  MatrixWeight* matrix = nullptr;
  bool keeps_dtype = false;  // a float matrix is packed in the element type that the file has
  bool keeps_parts = false;  // parts stay apart, in as many parts of the matrix
  ComputeType quant_compute = ComputeType::kF32;  // of what the checkpoint quantized
  const float** vector = nullptr;                 // float32 [rows, vector_columns]
  TableWeight* table = nullptr;  // [rows, table_columns], dtype wanted by the model in table->dtype
  int64_t table_columns = 0;

  // Of all parts, as the checkpoint has them.
  int64_t rows() const {
    int64_t sum = 0;
    for (const SlotPart& part : parts) sum += part.rows;
    return sum;
  }
  int64_t kept_rows() const {
    int64_t sum = 0;
    for (const RowRange& range : kept) sum += range.size();
    return kept.empty() ? rows() : sum;
  }
  // WeightPacking::place() takes it: a gate and what it gates are multiplied side by side if they
  // are one weight.
  int blocks_per_weight() const;
};

// This is a slot with its tensors found and checked. It borrows the slot and the source's tensors.
struct ResolvedSlot {
  const WeightSlot* slot = nullptr;
  struct Part {
    // Null when quantized, or where no file has it: then every element is `offset`.
    const RawTensor* tensor = nullptr;
    std::span<const std::byte> data = {};  // stored_rows rows of the tensor
    std::shared_ptr<const QuantMatrix> quant = {};
    int64_t rows = 0;
    bool transposed = false;
    // Where the rows lie among those of `data` or `quant`: first_row, first_row + row_step, ….
    int64_t first_row = 0;
    int64_t row_step = 1;
    int64_t stored_rows = 0;
    bool is_log = false;
    bool unit_rows = false;
    float offset = 0.0f;    // added to every element
    int64_t bytes() const;  // in the files
    // Returns its rows [begin, end).
    Part cut(const RowRange& range) const;
  };
  std::vector<Part> parts;
  // A table that is also this matrix (a tied head) and can be read as it is packed: it is kept
  // once.
  const MatrixWeight* shared = nullptr;
  // The table is used where it lies: right type, aligned. Its file must stay mapped.
  bool borrowed = false;
};

struct LoadPlan {
  WeightPacking* packing = nullptr;  // borrowed
  std::vector<ResolvedSlot> slots;
  int64_t arena_bytes() const;       // memory that load_checkpoint() takes from its arena
  int64_t borrowed_bytes() const;    // tables that stay in the mapped file
  int64_t checkpoint_bytes() const;  // bytes that are read
};

// Also decides how every matrix of the slots is packed: it fills MatrixWeight::parts and
// TableWeight::packed, but for their memory. kNotFound: a tensor is missing. kInvalidArgument: a
// shape or element type differs from what the model needs, or the checkpoint holds tensors that
// nothing uses. kUnimplemented: the backend does not take something.
Result<LoadPlan> resolve_checkpoint(const std::vector<WeightSlot>& slots, const NameMap& names,
                                    const QuantConfig& quantization, const TensorSource& source,
                                    WeightPacking& packing);

// For slots that no checkpoint fills: how the backend packs what their matrices say.
Status choose_packing(const std::vector<WeightSlot>& slots, WeightPacking& packing);
// Returns how much memory fill_random() takes for them.
int64_t slots_arena_bytes(const std::vector<WeightSlot>& slots, const WeightPacking& packing);

struct LoadOptions {
  // It is called with the bytes done and those in all, after each tensor, on the calling thread.
  std::function<void(int64_t, int64_t)> on_progress = {};
  // The tensors lie in file mappings: give pages back to the system once packed. Never for memory
  // that is not a file.
  bool release_pages = false;
  // Shares the work of reading quantized rows; null: the calling thread alone.
  ThreadTeam* team = nullptr;
};

// Loads through the plan's packing; `arena` is of the backend's memory. kDataLoss: a value in the
// checkpoint is no number.
Status load_checkpoint(const LoadPlan& plan, Arena& arena, const LoadOptions& options);

// As load_checkpoint() with an arena that holds its result already: slots point into it, nothing is
// read or written.
void bind_checkpoint(const LoadPlan& plan, Arena& arena);

// Makes reproducible random weights: matrices and tables are uniform in about [-0.04, 0.04], norm
// weights are 1 and biases 0.
Status fill_random(WeightPacking& packing, const std::vector<WeightSlot>& slots, Arena& arena);

}  // namespace quire
