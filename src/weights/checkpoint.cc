#include "weights/checkpoint.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/thread_team.h"
#include "weights/element.h"

namespace quire {
namespace {

// Quantized rows are read and packed this many codes at a time.
constexpr int64_t kQuantElements = int64_t{1} << 22;

int64_t table_bytes(const WeightSlot& slot) {
  return slot.rows() * slot.table_columns * size_bytes(slot.table->dtype);
}

int64_t matrix_bytes(const MatrixWeight& matrix) {
  int64_t bytes = 0;
  for (const PackedWeight& part : matrix.parts) {
    bytes += Arena::padded(packed_weight_bytes(part.spec));
  }
  return bytes;
}

int64_t slot_bytes(const WeightSlot& slot) {
  if (slot.matrix != nullptr) return matrix_bytes(*slot.matrix);
  if (slot.vector != nullptr)
    return Arena::padded(slot.rows() * static_cast<int64_t>(sizeof(float)));
  if (slot.table->packed) return Arena::padded(packed_weight_bytes(slot.table->packed->spec));
  return Arena::padded(table_bytes(slot));
}

int64_t slot_bytes(const ResolvedSlot& resolved) {
  return resolved.borrowed || resolved.shared != nullptr ? 0 : slot_bytes(*resolved.slot);
}

bool aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(dtype)) == 0;
}

// The whole pages inside `data`: the file still has them.
void release(std::span<const std::byte> data) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(data.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data.data()) + data.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// Takes the memory of a slot from the arena and points the slot at it. Of a vector or a dense table
// the memory, which is still to be filled; null otherwise.
void* bind_slot(const ResolvedSlot& resolved, Arena& arena) {
  const WeightSlot& slot = *resolved.slot;
  if (slot.matrix != nullptr) {
    for (PackedWeight& weight : slot.matrix->parts) {
      weight.data = arena.allocate_bytes(packed_weight_bytes(weight.spec));
    }
    return nullptr;
  }
  if (slot.vector != nullptr) {
    auto* out = arena.allocate<float>(slot.rows());
    *slot.vector = out;
    return out;
  }
  TableWeight& table = *slot.table;
  if (resolved.shared != nullptr) return nullptr;  // taken over once that matrix has its memory
  if (table.packed) {
    table.packed->data = arena.allocate_bytes(packed_weight_bytes(table.packed->spec));
    return nullptr;
  }
  if (resolved.borrowed) {
    table.data = resolved.parts.front().tensor->data.data();
    return nullptr;
  }
  void* out = arena.allocate_bytes(table_bytes(slot));
  table.data = out;
  return out;
}

void share_tables(const LoadPlan& plan) {
  for (const ResolvedSlot& resolved : plan.slots) {
    if (resolved.shared != nullptr) resolved.slot->table->packed = resolved.shared->parts.front();
  }
}

class Loader {
 public:
  Loader(Stream& stream, Arena& arena, const LoadOptions& options, int64_t total_bytes)
      : stream_(stream), arena_(arena), options_(options), total_bytes_(total_bytes) {}

  Status load(const ResolvedSlot& resolved) {
    void* memory = bind_slot(resolved, arena_);
    if (resolved.slot->matrix != nullptr) {
      QUIRE_RETURN_IF_ERROR(load_matrix(resolved));
    } else if (resolved.slot->vector != nullptr) {
      load_vector(resolved, static_cast<float*>(memory));
    } else {
      QUIRE_RETURN_IF_ERROR(load_table(resolved, memory));
    }
    for (const ResolvedSlot::Part& part : resolved.parts) {
      if (!resolved.borrowed && resolved.shared == nullptr) done_bytes_ += part.bytes();
      if (options_.release_pages) release_part(part);
    }
    if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
    return {};
  }

 private:
  static void release_part(const ResolvedSlot::Part& part) {
    if (part.tensor != nullptr) release(part.tensor->data);
    if (part.quant == nullptr) return;
    for (const RawTensor* tensor : part.quant->tensors()) release(tensor->data);
  }

  Status load_matrix(const ResolvedSlot& resolved) {
    const MatrixWeight& matrix = *resolved.slot->matrix;
    size_t next = 0;
    for (const PackedWeight& weight : matrix.parts) {
      for (int64_t row = 0; row < weight.spec.n; ++next) {
        const ResolvedSlot::Part& part = resolved.parts[next];
        if (part.quant != nullptr) {
          QUIRE_RETURN_IF_ERROR(pack_quantized(*part.quant, weight, row));
        } else {
          pack_dense(part, weight, row);
        }
        row += part.rows;
      }
    }
    return {};
  }

  void pack_dense(const ResolvedSlot::Part& part, const PackedWeight& weight, int64_t first_row) {
    const std::byte* rows = part.tensor->data.data();
    if (!aligned(rows, *part.tensor->dtype)) {
      scratch_.assign(part.tensor->data.begin(), part.tensor->data.end());
      rows = scratch_.data();
    }
    pack_weight_rows(stream_, weight,
                     {.rows = rows,
                      .dtype = *part.tensor->dtype,
                      .first_row = first_row,
                      .num_rows = part.rows,
                      .transposed = part.transposed});
  }

  Status pack_quantized(const QuantMatrix& matrix, const PackedWeight& weight, int64_t first_row) {
    if (weight.spec.quant.has_column_order) {
      pack_quant_columns(weight, matrix.column_order().data());
    }
    // Multiples of a panel's 32 rows, so that no panel is visited twice.
    const int64_t at_once = std::max<int64_t>(kQuantElements / matrix.columns() / 32, 1) * 32;
    QuantRowBuffer rows(matrix.spec(), matrix.columns(), std::min(at_once, matrix.rows()));
    for (int64_t row = 0; row < matrix.rows(); row += at_once) {
      const int64_t count = std::min(at_once, matrix.rows() - row);
      QUIRE_RETURN_IF_ERROR(read_rows(matrix, row, count, rows));
      if (weight.spec.dtype == DType::kI8) {
        pack_int8(weight, matrix.spec().scale_type, rows.at(0), first_row + row, count);
      } else {
        pack_quant_rows(stream_, weight, rows.view(first_row + row, count));
      }
    }
    return {};
  }

  void pack_int8(const PackedWeight& weight, ScaleType type, const QuantRowTarget& rows,
                 int64_t first_row, int64_t num_rows) {
    for (int64_t i = 0; i < num_rows * weight.spec.k; ++i) rows.codes[i] ^= 0x80u;
    const DType dtype = type == ScaleType::kF16    ? DType::kF16
                        : type == ScaleType::kBF16 ? DType::kBF16
                                                   : DType::kF32;
    std::vector<float> scales(static_cast<size_t>(num_rows));
    for (int64_t i = 0; i < num_rows; ++i) {
      scales[static_cast<size_t>(i)] = read_element(rows.scales, dtype, i);
    }
    pack_weight_rows(stream_, weight,
                     {.rows = rows.codes,
                      .dtype = DType::kI8,
                      .first_row = first_row,
                      .num_rows = num_rows,
                      .transposed = false,
                      .scales = scales.data()});
  }

  // On all threads of the team, in runs of rows.
  Status read_rows(const QuantMatrix& matrix, int64_t first, int64_t count, QuantRowBuffer& rows) {
    if (options_.team == nullptr) return matrix.read_rows(first, count, rows.at(0));
    std::vector<Status> statuses(static_cast<size_t>(options_.team->size()));
    options_.team->run([&](int thread) {
      const WorkRange mine = split_work(count, 8, thread, options_.team->size());
      if (mine.begin == mine.end) return;
      statuses[static_cast<size_t>(thread)] =
          matrix.read_rows(first + mine.begin, mine.end - mine.begin, rows.at(mine.begin));
    });
    for (Status& status : statuses) QUIRE_RETURN_IF_ERROR(std::move(status));
    return {};
  }

  static void load_vector(const ResolvedSlot& resolved, float* out) {
    for (const ResolvedSlot::Part& part : resolved.parts) {
      for (int64_t i = 0; i < part.rows; ++i) {
        *out++ = read_element(part.tensor->data.data(), *part.tensor->dtype, i) + part.offset;
      }
    }
  }

  // `out`: the memory of a dense table that is copied.
  Status load_table(const ResolvedSlot& resolved, void* out) {
    const TableWeight& table = *resolved.slot->table;
    if (resolved.shared != nullptr || resolved.borrowed) return {};
    if (table.packed) return pack_quantized(*resolved.parts.front().quant, *table.packed, 0);
    const RawTensor& tensor = *resolved.parts.front().tensor;
    if (*tensor.dtype == table.dtype) {
      std::memcpy(out, tensor.data.data(), tensor.data.size());
      return {};
    }
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      write_element(out, table.dtype, i, read_element(tensor.data.data(), *tensor.dtype, i));
    }
    return {};
  }

  Stream& stream_;
  Arena& arena_;
  const LoadOptions& options_;
  int64_t total_bytes_;
  int64_t done_bytes_ = 0;
  std::vector<std::byte> scratch_;
};

}  // namespace

int64_t ResolvedSlot::Part::bytes() const {
  if (tensor != nullptr) return static_cast<int64_t>(tensor->data.size());
  int64_t bytes = 0;
  for (const RawTensor* one : quant->tensors()) bytes += static_cast<int64_t>(one->data.size());
  return bytes;
}

int64_t LoadPlan::arena_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedSlot& resolved : slots) bytes += slot_bytes(resolved);
  return bytes;
}

int64_t LoadPlan::borrowed_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedSlot& resolved : slots) {
    if (resolved.borrowed) bytes += table_bytes(*resolved.slot);
  }
  return bytes;
}

int64_t LoadPlan::checkpoint_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedSlot& resolved : slots) {
    if (resolved.borrowed || resolved.shared != nullptr) continue;
    for (const ResolvedSlot::Part& part : resolved.parts) bytes += part.bytes();
  }
  return bytes;
}

int64_t slots_arena_bytes(const std::vector<WeightSlot>& slots) {
  int64_t bytes = 0;
  for (const WeightSlot& slot : slots) bytes += slot_bytes(slot);
  return bytes;
}

Status load_checkpoint(Stream& stream, const LoadPlan& plan, Arena& arena,
                       const LoadOptions& options) {
  Loader loader(stream, arena, options, plan.checkpoint_bytes());
  for (const ResolvedSlot& resolved : plan.slots) {
    QUIRE_RETURN_IF_ERROR(loader.load(resolved));
  }
  share_tables(plan);
  return {};
}

void bind_checkpoint(const LoadPlan& plan, Arena& arena) {
  for (const ResolvedSlot& resolved : plan.slots) bind_slot(resolved, arena);
  share_tables(plan);
}

}  // namespace quire
