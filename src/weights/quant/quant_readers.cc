#include "weights/quant/quant_readers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace quire {

const RawTensor* ModuleTensors::find(std::string_view suffix) {
  const RawTensor* tensor = source_.find(fmt::format("{}.{}", module_, suffix));
  if (tensor != nullptr) used_.push_back(tensor);
  return tensor;
}

Result<const RawTensor*> ModuleTensors::require(std::string_view suffix) {
  QUIRE_ASSIGN_OR_RETURN(const RawTensor* tensor,
                         source_.require(fmt::format("{}.{}", module_, suffix)));
  used_.push_back(tensor);
  return tensor;
}

Result<const RawTensor*> ModuleTensors::require(std::string_view suffix, std::string_view type_name,
                                                const std::vector<int64_t>& shape) {
  QUIRE_ASSIGN_OR_RETURN(const RawTensor* tensor, require(suffix));
  QUIRE_RETURN_IF_ERROR(check_type_and_shape(*tensor, type_name, shape));
  return tensor;
}

Status check_type_and_shape(const RawTensor& tensor, std::string_view type_name,
                            const std::vector<int64_t>& shape) {
  if (tensor.type_name != type_name) {
    return invalid_argument("tensor '{}': expected element type {}, got {}", tensor.name, type_name,
                            tensor.type_name);
  }
  if (tensor.shape != shape) {
    return invalid_argument("tensor '{}': expected shape [{}], got [{}]", tensor.name,
                            fmt::join(shape, ", "), fmt::join(tensor.shape, ", "));
  }
  return {};
}

Result<ScaleType> scale_type_of(const RawTensor& tensor) {
  if (tensor.dtype == DType::kF32) return ScaleType::kF32;
  if (tensor.dtype == DType::kF16) return ScaleType::kF16;
  if (tensor.dtype == DType::kBF16) return ScaleType::kBF16;
  return invalid_argument("tensor '{}': expected scales of F32, F16 or BF16, got {}", tensor.name,
                          tensor.type_name);
}

int64_t scale_bytes(ScaleType type) {
  switch (type) {
    case ScaleType::kNone:
      return 0;
    case ScaleType::kF32:
      return 4;
    case ScaleType::kF16:
    case ScaleType::kBF16:
      return 2;
    default:
      return 1;
  }
}

namespace {

bool is_finite_scale(const std::byte* at, ScaleType type) {
  uint16_t half;
  switch (type) {
    case ScaleType::kF32: {
      uint32_t word;
      std::memcpy(&word, at, 4);
      return (word & 0x7f800000u) != 0x7f800000u;
    }
    case ScaleType::kF16:
      std::memcpy(&half, at, 2);
      return (half & 0x7c00u) != 0x7c00u;
    case ScaleType::kBF16:
      std::memcpy(&half, at, 2);
      return (half & 0x7f80u) != 0x7f80u;
    case ScaleType::kE8M0:
      return *at != std::byte{0xff};
    case ScaleType::kE4M3:
      return (*at & std::byte{0x7f}) != std::byte{0x7f};
    default:
      return true;
  }
}

}  // namespace

Status check_finite(std::string_view tensor_name, const std::byte* scales, ScaleType type,
                    int64_t count) {
  const int64_t size = scale_bytes(type);
  for (int64_t i = 0; i < count; ++i) {
    if (!is_finite_scale(scales + i * size, type)) {
      return data_loss("tensor '{}': expected finite scales, got NaN or infinity", tensor_name);
    }
  }
  return {};
}

uint32_t PackedBits::word(int64_t i) const {
  uint32_t value;
  std::memcpy(&value, words_ + i * stride_bytes_, 4);
  return value;
}

uint32_t PackedBits::at(int64_t index) const {
  const int64_t first_bit = index * bits_;
  const int shift = static_cast<int>(first_bit % 32);
  uint32_t value = word(first_bit / 32) >> shift;
  if (shift + bits_ > 32) value |= word(first_bit / 32 + 1) << (32 - shift);
  return value & ((1u << bits_) - 1u);
}

int64_t count_groups(int64_t columns, int64_t group_size) {
  return group_size == -1 ? 1 : (columns + group_size - 1) / group_size;
}

Result<std::vector<int32_t>> order_by_group(const RawTensor& g_idx, int64_t columns,
                                            int64_t group_size) {
  QUIRE_RETURN_IF_ERROR(check_type_and_shape(g_idx, "I32", {columns}));
  const int64_t size = group_size == -1 ? columns : group_size;
  const int64_t num_groups = count_groups(columns, group_size);
  std::vector<int32_t> group_of(static_cast<size_t>(columns));
  std::memcpy(group_of.data(), g_idx.data.data(), g_idx.data.size());
  std::vector<int64_t> sizes(static_cast<size_t>(num_groups));
  for (const int32_t group : group_of) {
    if (group < 0 || group >= num_groups) {
      return invalid_argument("tensor '{}': expected groups in [0, {}), got {}", g_idx.name,
                              num_groups, group);
    }
    ++sizes[static_cast<size_t>(group)];
  }
  for (int64_t group = 0; group < num_groups; ++group) {
    const int64_t expected = std::min(size, columns - group * size);
    if (sizes[static_cast<size_t>(group)] != expected) {
      return invalid_argument("tensor '{}': expected {} inputs in group {}, got {}", g_idx.name,
                              expected, group, sizes[static_cast<size_t>(group)]);
    }
  }
  std::vector<int32_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return group_of[static_cast<size_t>(a)] < group_of[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace quire
