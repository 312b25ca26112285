#include "models/vision/mmproj_fields.h"

#include <algorithm>

#include "models/gguf/shown_value.h"

namespace quire {

std::optional<int64_t> MmprojFields::optional_integer(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto integer = value->as_int();
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!integer || *integer < 0 || *integer > kMost) {
    fail(invalid_argument("clip.vision.{}: expected a number from 0 to {}, got {}", key, kMost,
                          shown(value)));
  }
  return integer.value_or(0);
}

int64_t MmprojFields::integer(std::string_view key) {
  const auto value = optional_integer(key);
  if (value.value_or(0) > 0) return *value;
  fail(invalid_argument("clip.vision.{}: expected a number above 0, got {}", key,
                        value ? fmt::format("{}", *value) : "nothing"));
  return 1;
}

std::optional<double> MmprojFields::number(std::string_view key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->as_float();
  if (!number)
    fail(invalid_argument("clip.vision.{}: expected a number, got {}", key, shown(value)));
  return number;
}

bool MmprojFields::flag(std::string_view whole_key) const {
  const GgufValue* value = file_.find(whole_key);
  return value != nullptr && value->as_bool().value_or(false);
}

const RawTensor* MmprojFields::tensor(std::string_view name) const {
  const auto& tensors = file_.tensors();
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const RawTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

int64_t MmprojFields::rows(std::string_view name) {
  const RawTensor* const matrix = tensor(name);
  if (matrix != nullptr && matrix->shape.size() >= 2)
    return matrix->shape[matrix->shape.size() - 2];
  fail(invalid_argument(
      "expected a matrix '{}', got {}", name,
      matrix == nullptr ? "nothing" : fmt::format("a tensor of {} dims", matrix->shape.size())));
  return 1;
}

bool MmprojFields::has_swapped_mlps() const {
  const RawTensor* const down = tensor("v.blk.0.ffn_down.weight");
  const GgufValue* const width = find("embedding_length");
  if (down == nullptr || width == nullptr || down->shape.size() != 2) return false;
  return down->shape[1] == width->as_int() && down->shape[0] != width->as_int();
}

std::string_view mmproj_type(const GgufFile& file) {
  for (const char* key : {"clip.projector_type", "clip.vision.projector_type"}) {
    const GgufValue* const value = file.find(key);
    if (value != nullptr) return value->as_string().value_or("");
  }
  // The first files have LLaVA's projector, and do not name its type.
  const GgufValue* const is_llava = file.find("clip.has_llava_projector");
  return is_llava != nullptr && is_llava->as_bool().value_or(false) ? "mlp" : "";
}

}  // namespace quire
