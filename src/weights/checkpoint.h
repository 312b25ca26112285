// Loading a checkpoint turns tensors in files into weights in the layout of the kernels.
//
// A model says which weights it needs (WeightSlot) and how its checkpoints name them (NameMap).
// resolve_checkpoint() finds and checks every tensor before a byte is allocated, and asks the
// backend (WeightPacking) how each is packed; LoadPlan::arena_bytes() is the memory that the
// weights will take; load_checkpoint() packs the weights into that memory, fused parts into one
// matrix, and returns mapped pages to the system as it goes.
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

// A MatrixWeight is a matrix of the model, [n, k], as packed weights stacked along n. There is one
// part, unless the checkpoint quantized the parts of a fused matrix in different ways.
struct MatrixWeight {
  int64_t n = 0;
  int64_t k = 0;
  std::vector<PackedWeight> parts = {};
};

// A TableWeight is a table that is looked up by row. It is dense and row-major, or packed if the
// checkpoint quantized it (then `data` is null).
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

// A WeightSlot describes one weight of the model and where it is stored. Exactly one of the three
// destinations (`matrix`, `vector`, `table`) is set, and the slot borrows it; load_checkpoint() or
// fill_random() fills it.
struct WeightSlot {
  int32_t layer = -1;
  int32_t expert = -1;          // number within the layer if the weight is an expert's, else -1
  bool bias = false;            // reads the parts' ".bias" instead of their ".weight"
  std::vector<SlotPart> parts;  // stacked in this order
  // If the checkpoint stores the whole stack as one tensor of this role, that tensor is read
  // instead of the parts.
  std::optional<TensorRole> fused_role;
  // Rows of one head, for parts that consist of heads: q, k, v and their norms.
  int64_t head_rows = 0;
  float scale = 1.0f;          // for a vector: the factor applied to its elements
  int64_t row_groups = 1;      // for parts that are stored group by group (RowRuns::kPerGroup)
  int64_t vector_columns = 1;  // for a vector: elements per row
  // For a matrix or a vector: the stacked rows that are read, in ascending order; empty means all.
  std::vector<RowRange> kept = {};

  // The destination's n is kept_rows(). It has one part, which says how a float matrix is packed. A
  // matrix that the checkpoint quantized keeps its format, in parts that resolve_checkpoint() sets.
  MatrixWeight* matrix = nullptr;
  bool keeps_dtype = false;  // a float matrix is packed in the element type of the file
  bool keeps_parts = false;  // each part of the slot becomes a part of the matrix of its own
  ComputeType quant_compute = ComputeType::kF32;  // for quantized matrices
  const float** vector = nullptr;                 // float32 [rows, vector_columns]
  TableWeight* table = nullptr;  // [rows, table_columns], dtype wanted by the model in table->dtype
  int64_t table_columns = 0;

  // Returns the rows of all parts in the checkpoint, kept or not.
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
  // Returns the number of blocks for WeightPacking::place(). A gate and the up projection that it
  // gates are multiplied side by side if they are one weight, so such a weight has two blocks.
  int blocks_per_weight() const;
};

// A ResolvedSlot is a slot whose tensors were found and checked. It borrows the slot and the
// tensors of the source.
struct ResolvedSlot {
  const WeightSlot* slot = nullptr;
  struct Part {
    // Null if the part is quantized, or if no file has it: then every element is `offset`.
    const RawTensor* tensor = nullptr;
    std::span<const std::byte> data = {};  // stored_rows rows of the tensor
    std::shared_ptr<const QuantMatrix> quant = {};
    int64_t rows = 0;
    bool transposed = false;
    // The part's rows are the rows first_row, first_row + row_step, … of `data` or `quant`.
    int64_t first_row = 0;
    int64_t row_step = 1;
    int64_t stored_rows = 0;
    bool is_log = false;
    bool unit_rows = false;
    float offset = 0.0f;    // added to every element
    int64_t bytes() const;  // in the files
    // Returns the part's rows [begin, end).
    Part cut(const RowRange& range) const;
  };
  std::vector<Part> parts;
  // Set if the slot is a table that is also this matrix (a tied head) and can be read as the matrix
  // is packed: then the weights are stored once.
  const MatrixWeight* shared = nullptr;
  // The table is used in the mapped file, because its type and alignment fit. The file must stay
  // mapped.
  bool borrowed = false;
};

struct LoadPlan {
  WeightPacking* packing = nullptr;  // borrowed
  std::vector<ResolvedSlot> slots;
  int64_t arena_bytes() const;       // memory that load_checkpoint() takes from the arena
  int64_t borrowed_bytes() const;    // tables that stay in the mapped file
  int64_t checkpoint_bytes() const;  // bytes that are read
};

// Finds and checks the tensors of all slots and decides how every matrix is packed: it fills
// MatrixWeight::parts and TableWeight::packed, except for their memory. Returns kNotFound if a
// tensor is missing; kInvalidArgument if a shape or element type differs from what the model needs,
// or if the checkpoint holds tensors that nothing uses; kUnimplemented if the backend cannot take a
// weight.
Result<LoadPlan> resolve_checkpoint(const std::vector<WeightSlot>& slots, const NameMap& names,
                                    const QuantConfig& quantization, const TensorSource& source,
                                    WeightPacking& packing);

// Decides how the matrices of slots that no checkpoint fills are packed, as resolve_checkpoint()
// does.
Status choose_packing(const std::vector<WeightSlot>& slots, WeightPacking& packing);
// Returns how much memory fill_random() takes for these slots.
int64_t slots_arena_bytes(const std::vector<WeightSlot>& slots, const WeightPacking& packing);

struct LoadOptions {
  // Is called on the calling thread after each tensor, with the bytes done and the bytes in all.
  std::function<void(int64_t, int64_t)> on_progress = {};
  // Returns pages of the file mappings to the system once their tensors are packed. Must be false
  // if the tensors lie in memory that is no file mapping.
  bool release_pages = false;
  // Shares the work of reading quantized rows; null means that the calling thread does it alone.
  ThreadTeam* team = nullptr;
};

// Packs all slots into `arena`, which is memory of the plan's backend. Returns kDataLoss if a value
// in the checkpoint is no number.
Status load_checkpoint(const LoadPlan& plan, Arena& arena, const LoadOptions& options);

// Points the slots into an arena that already holds the result of load_checkpoint(); nothing is
// read or written.
void bind_checkpoint(const LoadPlan& plan, Arena& arena);

// Makes reproducible random weights: matrices and tables are uniform in about [-0.04, 0.04], norm
// weights are 1 and biases 0.
Status fill_random(WeightPacking& packing, const std::vector<WeightSlot>& slots, Arena& arena);

}  // namespace quire
