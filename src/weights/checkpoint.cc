#include "weights/checkpoint.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/threads/thread_team.h"
#include "kernels/quant_rows.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

// Quantized rows are read and packed this many codes at a time.
constexpr int64_t kQuantElements = int64_t{1} << 22;
// Tables of another type are converted this many elements at a time.
constexpr int64_t kTableElements = int64_t{1} << 20;

int64_t table_bytes(const WeightSlot& slot) {
  return slot.rows() * slot.table_columns * size_bytes(slot.table->dtype);
}

int64_t matrix_bytes(const MatrixWeight& matrix, const WeightPacking& packing) {
  int64_t bytes = 0;
  for (const PackedWeight& part : matrix.parts) {
    bytes += Arena::padded(packing.packed_bytes(part.spec));
  }
  return bytes;
}

int64_t slot_bytes(const WeightSlot& slot, const WeightPacking& packing) {
  if (slot.matrix != nullptr) return matrix_bytes(*slot.matrix, packing);
  if (slot.vector != nullptr)
    return Arena::padded(slot.kept_rows() * slot.vector_columns * int64_t{sizeof(float)});
  if (slot.table->packed) return Arena::padded(packing.packed_bytes(slot.table->packed->spec));
  return Arena::padded(table_bytes(slot));
}

int64_t slot_bytes(const ResolvedSlot& resolved, const WeightPacking& packing) {
  return resolved.borrowed || resolved.shared != nullptr ? 0 : slot_bytes(*resolved.slot, packing);
}

bool aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(dtype)) == 0;
}

// Returns the whole pages inside `data` to the system, which can read them from the file again.
void release(std::span<const std::byte> data) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(data.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data.data()) + data.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

int WeightSlot::blocks_per_weight() const {
  const bool is_gate_and_up = parts.size() == 2 && parts.front().role == TensorRole::kGate;
  return is_gate_and_up && matrix->parts.size() == 1 ? 2 : 1;
}

namespace {

// Takes the memory of a slot from the arena and points the slot to it. Returns that memory for a
// vector or a dense table, which the caller has to fill; null otherwise.
void* bind_slot(const ResolvedSlot& resolved, const WeightPacking& packing, Arena& arena) {
  const WeightSlot& slot = *resolved.slot;
  if (slot.matrix != nullptr) {
    for (PackedWeight& weight : slot.matrix->parts) {
      weight.data = arena.allocate_bytes(packing.packed_bytes(weight.spec));
    }
    return nullptr;
  }
  if (slot.vector != nullptr) {
    auto* out = arena.allocate<float>(slot.kept_rows() * slot.vector_columns);
    *slot.vector = out;
    return out;
  }
  TableWeight& table = *slot.table;
  if (resolved.shared != nullptr) return nullptr;  // it is set once the matrix has its memory
  if (table.packed) {
    table.packed->data = arena.allocate_bytes(packing.packed_bytes(table.packed->spec));
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
    if (resolved.shared == nullptr) continue;
    const PackedWeight& matrix = resolved.shared->parts.front();
    TableWeight& table = *resolved.slot->table;
    if (table.packed) {
      table.packed = matrix;
    } else {
      table.data = matrix.data;
    }
  }
}

class Loader {
 public:
  Loader(WeightPacking& packing, Arena& arena, const LoadOptions& options, int64_t total_bytes)
      : packing_(packing), arena_(arena), options_(options), total_bytes_(total_bytes) {}

  Status load(const ResolvedSlot& resolved) {
    void* memory = bind_slot(resolved, packing_, arena_);
    if (resolved.slot->matrix != nullptr) {
      QUIRE_RETURN_IF_ERROR(load_matrix(resolved));
    } else if (resolved.slot->vector != nullptr) {
      load_vector(resolved, memory);
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
    if (part.tensor != nullptr) release(part.data);
    if (part.quant == nullptr) return;
    for (const RawTensor* tensor : part.quant->tensors()) release(tensor->data);
  }

  Status load_matrix(const ResolvedSlot& resolved) {
    const MatrixWeight& matrix = *resolved.slot->matrix;
    size_t next = 0;
    for (const PackedWeight& weight : matrix.parts) {
      packing_.place(weight, resolved.slot->blocks_per_weight());
      for (int64_t row = 0; row < weight.spec.n; ++next) {
        const ResolvedSlot::Part& part = resolved.parts[next];
        if (part.quant != nullptr) {
          QUIRE_RETURN_IF_ERROR(pack_quantized(part, weight, row));
        } else {
          pack_dense(part, weight, row);
        }
        row += part.rows;
      }
    }
    return {};
  }

  // Packs the rows divided by their lengths, rounded to the type that they are stored in.
  void pack_unit_rows(const ResolvedSlot::Part& part, const PackedWeight& weight,
                      int64_t first_row) {
    constexpr double kShortest = 1e-12;
    const int64_t columns = weight.spec.k;
    const DType dtype = *part.tensor->dtype;
    // A multiple of the 32 rows of a panel.
    const int64_t at_once = std::max<int64_t>(kTableElements / columns / 32, 1) * 32;
    for (int64_t row = 0; row < part.rows; row += at_once) {
      const int64_t count = std::min(at_once, part.rows - row);
      scratch_.resize(static_cast<size_t>(count * columns * size_bytes(dtype)));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t from = (part.first_row + (row + i) * part.row_step) * columns;
        double sum = 0.0;
        for (int64_t k = 0; k < columns; ++k) {
          const double x = read_element(part.data.data(), dtype, from + k);
          sum += x * x;
        }
        const double length = std::max(std::sqrt(sum), kShortest);
        for (int64_t k = 0; k < columns; ++k) {
          const double x = read_element(part.data.data(), dtype, from + k);
          write_element(scratch_.data(), dtype, i * columns + k, static_cast<float>(x / length));
        }
      }
      packing_.pack_weight_rows(weight, {.rows = scratch_.data(),
                                         .dtype = dtype,
                                         .first_row = first_row + row,
                                         .num_rows = count,
                                         .transposed = false});
    }
  }

  void pack_dense(const ResolvedSlot::Part& part, const PackedWeight& weight, int64_t first_row) {
    if (part.unit_rows) return pack_unit_rows(part, weight, first_row);
    const bool is_gathered = part.row_step > 1 || (part.transposed && part.rows < part.stored_rows);
    if (is_gathered) gather_rows(part, weight.spec.k);
    const size_t row_bytes = part.data.size() / static_cast<size_t>(part.stored_rows);
    std::span<const std::byte> rows =
        is_gathered ? std::span<const std::byte>(scratch_) : part.data;
    if (!is_gathered && !part.transposed) {
      rows = rows.subspan(static_cast<size_t>(part.first_row) * row_bytes,
                          static_cast<size_t>(part.rows) * row_bytes);
    }
    if (!aligned(rows.data(), *part.tensor->dtype)) {
      scratch_.assign(rows.begin(), rows.end());
      rows = scratch_;
    }
    packing_.pack_weight_rows(weight, {.rows = rows.data(),
                                       .dtype = *part.tensor->dtype,
                                       .first_row = first_row,
                                       .num_rows = part.rows,
                                       .transposed = part.transposed && !is_gathered});
  }

  // Copies the part's rows of a tensor to scratch_, [rows, columns].
  void gather_rows(const ResolvedSlot::Part& part, int64_t columns) {
    const auto size = static_cast<size_t>(size_bytes(*part.tensor->dtype));
    // The strides, in elements, between columns and between rows of the tensor.
    const int64_t column_stride = part.transposed ? part.stored_rows : 1;
    const int64_t row_stride = part.transposed ? 1 : columns;
    scratch_.resize(static_cast<size_t>(part.rows * columns) * size);
    std::byte* to = scratch_.data();
    for (int64_t row = 0; row < part.rows; ++row) {
      const int64_t stored_row = part.first_row + row * part.row_step;
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t at = stored_row * row_stride + column * column_stride;
        std::memcpy(to, part.data.data() + static_cast<size_t>(at) * size, size);
        to += size;
      }
    }
  }

  Status pack_quantized(const ResolvedSlot::Part& part, const PackedWeight& weight,
                        int64_t first_row) {
    const QuantMatrix& matrix = *part.quant;
    if (matrix.spec().has_column_order) {
      packing_.pack_quant_columns(weight, matrix.column_order().data());
    }
    return for_rows(part, [&](QuantRows rows) {
      rows.first_row += first_row;
      packing_.pack_quant_rows(weight, matrix.spec(), rows);
    });
  }

  // Calls `take` with the rows of the part, a number of rows at a time.
  template <typename Take>
  Status for_rows(const ResolvedSlot::Part& part, const Take& take) {
    const QuantMatrix& matrix = *part.quant;
    // A multiple of the 32 rows of a panel, so that no panel is visited twice.
    const int64_t at_once = std::max<int64_t>(kQuantElements / matrix.columns() / 32, 1) * 32;
    QuantRowBuffer rows(matrix.spec(), matrix.columns(), std::min(at_once, part.rows));
    for (int64_t row = 0; row < part.rows; row += at_once) {
      const int64_t count = std::min(at_once, part.rows - row);
      QUIRE_RETURN_IF_ERROR(read_rows(part, row, count, rows));
      take(rows.view(row, count));
    }
    return {};
  }

  // Reads rows of the part to `rows`, on all threads of the team.
  Status read_rows(const ResolvedSlot::Part& part, int64_t first, int64_t count,
                   QuantRowBuffer& rows) {
    if (options_.team == nullptr) return read_run(part, first, count, 0, rows);
    std::vector<Status> statuses(static_cast<size_t>(options_.team->size()));
    options_.team->run([&](int thread) {
      const WorkRange mine = split_work(count, 8, thread, options_.team->size());
      if (mine.begin == mine.end) return;
      statuses[static_cast<size_t>(thread)] =
          read_run(part, first + mine.begin, mine.end - mine.begin, mine.begin, rows);
    });
    for (Status& status : statuses) QUIRE_RETURN_IF_ERROR(std::move(status));
    return {};
  }

  // Reads rows [first, first + count) of the part to row `to` of the buffer.
  static Status read_run(const ResolvedSlot::Part& part, int64_t first, int64_t count, int64_t to,
                         QuantRowBuffer& rows) {
    const int64_t step = part.row_step;
    const int64_t stored_row = part.first_row + first * step;
    if (step == 1) return part.quant->read_rows(stored_row, count, rows.at(to));
    for (int64_t i = 0; i < count; ++i) {
      QUIRE_RETURN_IF_ERROR(part.quant->read_rows(stored_row + i * step, 1, rows.at(to + i)));
    }
    return {};
  }

  void load_vector(const ResolvedSlot& resolved, void* memory) {
    std::vector<float> values;
    for (const ResolvedSlot::Part& part : resolved.parts) {
      const int64_t columns = resolved.slot->vector_columns;
      if (part.tensor == nullptr) {
        values.insert(values.end(), static_cast<size_t>(part.rows * columns),
                      part.offset * resolved.slot->scale);
        continue;
      }
      for (int64_t i = 0; i < part.rows * columns; ++i) {
        const int64_t row = part.first_row + i / columns * part.row_step;
        const int64_t at = row * columns + i % columns;
        float stored = read_element(part.data.data(), *part.tensor->dtype, at);
        if (part.is_log) stored = -std::exp(stored);
        values.push_back((stored + part.offset) * resolved.slot->scale);
      }
    }
    packing_.write(memory, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  }

  // `memory` is that of a dense table which is copied.
  Status load_table(const ResolvedSlot& resolved, void* memory) {
    const TableWeight& table = *resolved.slot->table;
    if (resolved.shared != nullptr || resolved.borrowed) return {};
    const ResolvedSlot::Part& part = resolved.parts.front();
    if (table.packed) return pack_quantized(part, *table.packed, 0);
    if (part.quant != nullptr) return expand_table(part, table.dtype, memory);
    const RawTensor& tensor = *part.tensor;
    if (*tensor.dtype == table.dtype) {
      packing_.write(memory, tensor.data.data(), static_cast<int64_t>(tensor.data.size()));
      return {};
    }
    write_converted(tensor.num_elements(), table.dtype, memory,
                    [&](int64_t i) { return read_element(tensor.data.data(), *tensor.dtype, i); });
    return {};
  }

  Status expand_table(const ResolvedSlot::Part& part, DType dtype, void* memory) {
    const QuantMatrix& matrix = *part.quant;
    const WeightSpec spec{.n = matrix.rows(), .k = matrix.columns(), .quant = matrix.spec()};
    std::vector<float> values;
    return for_rows(part, [&](const QuantRows& rows) {
      values.resize(static_cast<size_t>(rows.num_rows * spec.k));
      dequantize_rows(spec, rows, values.data());
      auto* to = static_cast<std::byte*>(memory) + rows.first_row * spec.k * size_bytes(dtype);
      write_converted(rows.num_rows * spec.k, dtype, to,
                      [&](int64_t i) { return values[static_cast<size_t>(i)]; });
    });
  }

  template <typename ValueAt>
  void write_converted(int64_t count, DType dtype, void* to, const ValueAt& value_at) {
    for (int64_t first = 0; first < count; first += kTableElements) {
      const int64_t part = std::min(kTableElements, count - first);
      scratch_.resize(static_cast<size_t>(part * size_bytes(dtype)));
      for (int64_t i = 0; i < part; ++i)
        write_element(scratch_.data(), dtype, i, value_at(first + i));
      packing_.write(static_cast<std::byte*>(to) + first * size_bytes(dtype), scratch_.data(),
                     part * size_bytes(dtype));
    }
  }

  WeightPacking& packing_;
  Arena& arena_;
  const LoadOptions& options_;
  int64_t total_bytes_;
  int64_t done_bytes_ = 0;
  std::vector<std::byte> scratch_;
};

}  // namespace

int64_t ResolvedSlot::Part::bytes() const {
  if (tensor != nullptr) return static_cast<int64_t>(data.size());
  int64_t bytes = 0;
  if (quant == nullptr) return bytes;
  for (const RawTensor* one : quant->tensors()) bytes += static_cast<int64_t>(one->data.size());
  return bytes;
}

ResolvedSlot::Part ResolvedSlot::Part::cut(const RowRange& range) const {
  Part part = *this;
  part.rows = range.size();
  part.first_row += range.begin * row_step;
  return part;
}

int64_t LoadPlan::arena_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedSlot& resolved : slots) bytes += slot_bytes(resolved, *packing);
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

int64_t slots_arena_bytes(const std::vector<WeightSlot>& slots, const WeightPacking& packing) {
  int64_t bytes = 0;
  for (const WeightSlot& slot : slots) bytes += slot_bytes(slot, packing);
  return bytes;
}

Status load_checkpoint(const LoadPlan& plan, Arena& arena, const LoadOptions& options) {
  Loader loader(*plan.packing, arena, options, plan.checkpoint_bytes());
  for (const ResolvedSlot& resolved : plan.slots) {
    QUIRE_RETURN_IF_ERROR(loader.load(resolved));
  }
  share_tables(plan);
  return plan.packing->finish();
}

void bind_checkpoint(const LoadPlan& plan, Arena& arena) {
  for (const ResolvedSlot& resolved : plan.slots) bind_slot(resolved, *plan.packing, arena);
  share_tables(plan);
}

}  // namespace quire
