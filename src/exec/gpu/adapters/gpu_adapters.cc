#include "exec/gpu/adapters/gpu_adapters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/model_loading.h"

namespace quire {
namespace {

int64_t table_bytes(const LoraTable& table, int32_t num_slots) {
  return num_slots * table.slot_stride() * static_cast<int64_t>(sizeof(LoraPart));
}
int64_t rows_bytes(int64_t max_tokens) { return Arena::padded(2 * max_tokens * 4); }

}  // namespace

int64_t GpuAdapters::device_bytes(const ModelRunnerOptions& options, const DecoderWeights& weights,
                                  int64_t max_tokens) {
  if (options.max_adapters == 0) return 0;
  const LoraTable table(weights.slots());
  return Arena::padded(table_bytes(table, options.max_adapters)) + rows_bytes(max_tokens);
}

Result<std::unique_ptr<GpuAdapters>> GpuAdapters::create(const Model& model) {
  std::unique_ptr<GpuAdapters> adapters(new GpuAdapters(model));
  QUIRE_RETURN_IF_ERROR(adapters->allocate());
  return adapters;
}

GpuAdapters::GpuAdapters(const Model& model)
    : model_(model),
      table_(model.weights.slots()),
      max_tokens_(model.plan.limits.max_tokens),
      places_(std::make_shared<AdapterMemory>(model.options.max_adapters,
                                              model.plan.memory.adapters)) {}

Status GpuAdapters::allocate() {
  Device& device = model_.device;
  const int64_t weight_bytes = Arena::padded(model_.plan.memory.adapters);
  const int64_t parts_bytes = Arena::padded(table_bytes(table_, model_.options.max_adapters));
  QUIRE_ASSIGN_OR_RETURN(memory_,
                         device.allocate(weight_bytes + parts_bytes + rows_bytes(max_tokens_)));
  weights_ = static_cast<std::byte*>(memory_.allocate_bytes(weight_bytes));
  parts_ = static_cast<LoraPart*>(memory_.allocate_bytes(parts_bytes));
  rows_ = memory_.allocate<int32_t>(2 * max_tokens_);
  const auto num_staged = static_cast<int64_t>(model_.num_staged);
  QUIRE_ASSIGN_OR_RETURN(pinned_, device.allocate_pinned(num_staged * rows_bytes(max_tokens_)));
  for (int64_t i = 0; i < num_staged; ++i)
    staged_.push_back(pinned_.allocate<int32_t>(2 * max_tokens_));
  QUIRE_ASSIGN_OR_RETURN(copies_, device.make_copy_queue());
  return {};
}

Result<std::vector<LoraPart>> GpuAdapters::table_row(const LoadedAdapter& adapter,
                                                     const std::string& path) const {
  std::vector<LoraPart> row(static_cast<size_t>(table_.slot_stride()));
  for (const auto& [matrix, place] : table_.parts()) {
    const std::span<const LoraPart> parts = adapter.weights.parts(*matrix);
    if (std::ssize(parts) > place.count) {
      return unimplemented(
          "{}: {} updates of one matrix, where a GPU takes one of each of its {} parts", path,
          parts.size(), place.count);
    }
    std::copy(parts.begin(), parts.end(), row.begin() + place.first);
  }
  return row;
}

Result<std::shared_ptr<const Adapter>> GpuAdapters::load(const std::string& name,
                                                         const std::string& path) {
  AdapterReading reading{.options = model_.options,
                         .plan = model_.plan,
                         .weights = model_.weights,
                         .lora = {.layout = LoraLayout::kRows},
                         .in_use = in_use_};
  if (model_.options.stage.count > 1) {
    reading.lora.own_layers = layers_of(model_.plan.whole, model_.options.stage);
    reading.lora.num_layers = std::ssize(model_.plan.whole.layers);
  }
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<LoadedAdapter> adapter, read_adapter(name, path, reading));
  const std::span<const std::byte> bytes = adapter->weights.bytes();
  const auto place = places_->take(std::ssize(bytes));
  if (!place) {
    return resource_exhausted(
        "{}: the adapter takes {} MiB in one piece, and the largest that is free of --lora-memory "
        "has {} MiB",
        path, (bytes.size() >> 20) + 1, places_->largest_free_bytes() >> 20);
  }
  adapter->device_slot = place->slot;
  adapter->device_memory = std::shared_ptr<const void>(
      nullptr, [places = places_, at = *place](const void*) { places->give_back(at); });
  const std::lock_guard lock(copying_);
  std::byte* const to = weights_ + place->offset;
  QUIRE_RETURN_IF_ERROR(copies_->copy_to_device(to, bytes.data(), std::ssize(bytes)));
  adapter->weights.move_to(to);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<LoraPart> row, table_row(*adapter, path));
  QUIRE_RETURN_IF_ERROR(
      copies_->copy_to_device(parts_ + place->slot * table_.slot_stride(), row.data(),
                              std::ssize(row) * static_cast<int64_t>(sizeof(LoraPart))));
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

LoraSlots GpuAdapters::place(size_t turn, std::span<const LoraRows> adapters, int64_t num_tokens) {
  int32_t* const slots = staged_[turn];
  int32_t* const order = slots + max_tokens_;
  std::fill_n(slots, num_tokens, -1);
  std::fill_n(order, num_tokens, -1);
  int32_t* next = order;
  for (const LoraRows& adapter : adapters) {
    for (const int32_t row : adapter.rows) slots[row] = adapter.slot;
    next = std::copy(adapter.rows.begin(), adapter.rows.end(), next);
  }
  Device& device = model_.device;
  device.copy_to_device(rows_, slots, num_tokens * 4);
  device.copy_to_device(rows_ + max_tokens_, order, num_tokens * 4);
  return {.table = &table_, .parts = parts_, .slots = rows_, .order = rows_ + max_tokens_};
}

}  // namespace quire
