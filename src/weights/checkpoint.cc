#include "weights/checkpoint.h"

#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/rng.h"

namespace quire {
namespace {

constexpr int64_t kRandomElements = int64_t{1} << 20;

int64_t table_bytes(const WeightSlot& slot) {
  return slot.rows() * slot.table_columns * size_bytes(slot.table->dtype);
}

int64_t slot_bytes(const WeightSlot& slot) {
  if (slot.matrix != nullptr) return Arena::padded(packed_weight_bytes(slot.matrix->spec));
  if (slot.vector != nullptr)
    return Arena::padded(slot.rows() * static_cast<int64_t>(sizeof(float)));
  return Arena::padded(table_bytes(slot));
}

bool aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_bytes(dtype)) == 0;
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

Status check_tensor(const RawTensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape != shape) {
    return invalid_argument("tensor '{}': expected shape [{}], got [{}]", tensor.name,
                            fmt::join(shape, ", "), fmt::join(tensor.shape, ", "));
  }
  if (!tensor.dtype || !is_float(*tensor.dtype)) {
    return invalid_argument("tensor '{}': expected element type F32, F16 or BF16, got {}",
                            tensor.name, tensor.type_name);
  }
  return {};
}

// Finds the tensors of slots and remembers which ones were used.
class Resolver {
 public:
  Resolver(const NameMap& names, const TensorSource& source) : names_(names), source_(source) {
    prefix_ = names.prefixes.empty() ? NamePrefix{} : names.prefixes.front();
    const NameMapEntry* probe = find_role(names, TensorRole::kTokenEmbedding);
    for (const NamePrefix& prefix : names.prefixes) {
      if (probe != nullptr && source.find(tensor_name(*probe, prefix, -1, "weight")) != nullptr) {
        prefix_ = prefix;
        break;
      }
    }
  }

  Result<ResolvedSlot> resolve(const WeightSlot& slot) {
    ResolvedSlot resolved{.slot = &slot, .parts = {}, .borrowed = false};
    std::vector<SlotPart> parts = slot.parts;
    if (slot.fused_role && find_role(names_, *slot.fused_role) != nullptr) {
      parts = {{*slot.fused_role, slot.rows()}};
    }
    for (const SlotPart& part : parts) {
      QUIRE_ASSIGN_OR_RETURN(ResolvedSlot::Part found, resolve_part(slot, part));
      resolved.parts.push_back(found);
    }
    if (slot.table != nullptr) {
      const RawTensor& tensor = *resolved.parts.front().tensor;
      resolved.borrowed =
          *tensor.dtype == slot.table->dtype && aligned(tensor.data.data(), *tensor.dtype);
    }
    return resolved;
  }

  // Something in the checkpoint that the model does not know changes what it computes: refuse it.
  Status check_leftovers() const {
    for (const RawTensor& tensor : source_.tensors()) {
      const std::string_view name = tensor.name;
      if (used_.contains(name) || is_spare_head(name)) continue;
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
  // A head that repeats the tied token embedding: read_model_config() has compared them.
  bool is_spare_head(std::string_view name) const {
    const NameMapEntry* head = find_role(names_, TensorRole::kLmHead);
    return head != nullptr && name == tensor_name(*head, prefix_, -1, "weight");
  }

  Result<ResolvedSlot::Part> resolve_part(const WeightSlot& slot, const SlotPart& part) {
    const NameMapEntry* entry = find_role(names_, part.role);
    QUIRE_CHECK(entry != nullptr, "role {} has no name", static_cast<int>(part.role));
    const std::string name =
        tensor_name(*entry, prefix_, slot.layer, slot.bias ? "bias" : "weight");
    QUIRE_ASSIGN_OR_RETURN(const RawTensor* tensor, source_.require(name));
    std::vector<int64_t> shape{part.rows};
    const bool transposed = entry->transposed && slot.matrix != nullptr;
    if (slot.matrix != nullptr) {
      shape = transposed ? std::vector<int64_t>{slot.matrix->spec.k, part.rows}
                         : std::vector<int64_t>{part.rows, slot.matrix->spec.k};
    } else if (slot.table != nullptr) {
      shape.push_back(slot.table_columns);
    }
    QUIRE_RETURN_IF_ERROR(check_tensor(*tensor, shape));
    used_.insert(tensor->name);
    const float offset = is_norm(part.role) && !slot.bias ? names_.norm_offset : 0.0f;
    return ResolvedSlot::Part{tensor, part.rows, transposed, offset};
  }

  const NameMap& names_;
  const TensorSource& source_;
  NamePrefix prefix_;
  std::set<std::string_view> used_;
};

float read_element(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16: {
      float16 half;
      std::memcpy(&half, data + index * 2, 2);
      return to_float(half);
    }
    case DType::kBF16: {
      bfloat16 half;
      std::memcpy(&half, data + index * 2, 2);
      return to_float(half);
    }
    default: {
      float value;
      std::memcpy(&value, data + index * 4, 4);
      return value;
    }
  }
}

void write_element(void* data, DType dtype, int64_t index, float value) {
  switch (dtype) {
    case DType::kF16:
      static_cast<float16*>(data)[index] = to_float16(value);
      break;
    case DType::kBF16:
      static_cast<bfloat16*>(data)[index] = to_bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
      break;
  }
}

void load_matrix(Stream& stream, const ResolvedSlot& resolved, std::vector<std::byte>& scratch) {
  int64_t first_row = 0;
  for (const ResolvedSlot::Part& part : resolved.parts) {
    const std::byte* rows = part.tensor->data.data();
    if (!aligned(rows, *part.tensor->dtype)) {
      scratch.assign(part.tensor->data.begin(), part.tensor->data.end());
      rows = scratch.data();
    }
    pack_weight_rows(stream, *resolved.slot->matrix,
                     {.rows = rows,
                      .dtype = *part.tensor->dtype,
                      .first_row = first_row,
                      .num_rows = part.rows,
                      .transposed = part.transposed});
    first_row += part.rows;
  }
}

void load_vector(const ResolvedSlot& resolved, Arena& arena) {
  auto* out = arena.allocate<float>(resolved.slot->rows());
  *resolved.slot->vector = out;
  for (const ResolvedSlot::Part& part : resolved.parts) {
    for (int64_t i = 0; i < part.rows; ++i) {
      *out++ = read_element(part.tensor->data.data(), *part.tensor->dtype, i) + part.offset;
    }
  }
}

void load_table(const ResolvedSlot& resolved, Arena& arena) {
  TableWeight& table = *resolved.slot->table;
  const RawTensor& tensor = *resolved.parts.front().tensor;
  if (resolved.borrowed) {
    table.data = tensor.data.data();
    return;
  }
  void* out = arena.allocate_bytes(table_bytes(*resolved.slot));
  table.data = out;
  if (*tensor.dtype == table.dtype) {
    std::memcpy(out, tensor.data.data(), tensor.data.size());
    return;
  }
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    write_element(out, table.dtype, i, read_element(tensor.data.data(), *tensor.dtype, i));
  }
}

// The whole pages inside `data`: the file still has them.
void release(std::span<const std::byte> data) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(data.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data.data()) + data.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// Repeats `random` over the table.
void fill_random_table(const std::vector<bfloat16>& random, int64_t count, DType dtype, void* out) {
  const auto period = static_cast<int64_t>(random.size());
  if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < count; i += period) {
      std::memcpy(static_cast<bfloat16*>(out) + i, random.data(),
                  static_cast<size_t>(std::min(period, count - i)) * sizeof(bfloat16));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    write_element(out, dtype, i, to_float(random[static_cast<size_t>(i % period)]));
}

}  // namespace

int64_t LoadPlan::arena_bytes() const {
  int64_t bytes = 0;
  for (const ResolvedSlot& resolved : slots) {
    if (!resolved.borrowed) bytes += slot_bytes(*resolved.slot);
  }
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
    if (resolved.borrowed) continue;
    for (const ResolvedSlot::Part& part : resolved.parts)
      bytes += static_cast<int64_t>(part.tensor->data.size());
  }
  return bytes;
}

Result<LoadPlan> resolve_checkpoint(const std::vector<WeightSlot>& slots, const NameMap& names,
                                    const TensorSource& source) {
  Resolver resolver(names, source);
  LoadPlan plan;
  plan.slots.reserve(slots.size());
  for (const WeightSlot& slot : slots) {
    QUIRE_ASSIGN_OR_RETURN(ResolvedSlot resolved, resolver.resolve(slot));
    plan.slots.push_back(std::move(resolved));
  }
  QUIRE_RETURN_IF_ERROR(resolver.check_leftovers());
  return plan;
}

int64_t slots_arena_bytes(const std::vector<WeightSlot>& slots) {
  int64_t bytes = 0;
  for (const WeightSlot& slot : slots) bytes += slot_bytes(slot);
  return bytes;
}

Status load_checkpoint(Stream& stream, const LoadPlan& plan, Arena& arena,
                       const LoadOptions& options) {
  const int64_t total = plan.checkpoint_bytes();
  int64_t done = 0;
  std::vector<std::byte> scratch;
  for (const ResolvedSlot& resolved : plan.slots) {
    if (resolved.slot->matrix != nullptr) {
      PackedWeight& weight = *resolved.slot->matrix;
      weight.data = arena.allocate_bytes(packed_weight_bytes(weight.spec));
      load_matrix(stream, resolved, scratch);
    } else if (resolved.slot->vector != nullptr) {
      load_vector(resolved, arena);
    } else {
      load_table(resolved, arena);
    }
    for (const ResolvedSlot::Part& part : resolved.parts) {
      if (!resolved.borrowed) done += static_cast<int64_t>(part.tensor->data.size());
      if (options.release_pages) release(part.tensor->data);
    }
    if (options.on_progress) options.on_progress(done, total);
  }
  return {};
}

void fill_random(Stream& stream, const std::vector<WeightSlot>& slots, Arena& arena) {
  std::vector<bfloat16> random(static_cast<size_t>(kRandomElements));
  for (int64_t i = 0; i < kRandomElements; i += 4) {
    const auto words = philox4x32(0x51526e67, {static_cast<uint32_t>(i), 0, 0, 0});
    for (size_t j = 0; j < 4; ++j) {
      const float unit = static_cast<float>(words[j] >> 8) * 0x1p-23f - 1.0f;
      random[static_cast<size_t>(i) + j] = to_bfloat16(0.04f * unit);
    }
  }
  for (const WeightSlot& slot : slots) {
    if (slot.matrix != nullptr) {
      PackedWeight& weight = *slot.matrix;
      weight.data = arena.allocate_bytes(packed_weight_bytes(weight.spec));
      // Rows repeat after kRandomElements: the values do not matter, their spread and the bytes
      // read do.
      const int64_t rows_at_once = std::max<int64_t>(1, kRandomElements / weight.spec.k);
      for (int64_t row = 0; row < weight.spec.n; row += rows_at_once) {
        pack_weight_rows(stream, weight,
                         {.rows = random.data(),
                          .dtype = DType::kBF16,
                          .first_row = row,
                          .num_rows = std::min(rows_at_once, weight.spec.n - row),
                          .transposed = false});
      }
    } else if (slot.vector != nullptr) {
      auto* out = arena.allocate<float>(slot.rows());
      std::fill_n(out, slot.rows(), is_norm(slot.parts.front().role) && !slot.bias ? 1.0f : 0.0f);
      *slot.vector = out;
    } else {
      void* out = arena.allocate_bytes(table_bytes(slot));
      fill_random_table(random, slot.rows() * slot.table_columns, slot.table->dtype, out);
      slot.table->data = out;
    }
  }
}

}  // namespace quire
