#include "weights/cache_scales.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "weights/names/name_prefix.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

constexpr std::string_view kKey = ".k_scale";
constexpr std::string_view kValue = ".v_scale";
constexpr std::string_view kQuery = ".q_scale";
constexpr std::string_view kBoth = ".kv_scale";

// Returns "model.layers." for the pattern "model.layers.{}.self_attn.k_proj".
std::string layers_prefix(const NameMap& names, const TensorSource& source) {
  for (const NameMap* map = &names; map != nullptr; map = map->base) {
    for (const NameMapEntry& entry : map->entries) {
      const size_t hole = entry.pattern.find("{}");
      if (hole == std::string_view::npos) continue;
      return std::string(find_prefix(names, source).trunk).append(entry.pattern.substr(0, hole));
    }
  }
  return {};
}

// Returns 3 for "model.layers.3.self_attn.k_scale"; nullopt for names outside the model's layers,
// such as those of a vision tower.
std::optional<int64_t> layer_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view rest = name.substr(prefix.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  if (error == std::errc::invalid_argument || end == rest.data() + rest.size() || *end != '.') {
    return std::nullopt;
  }
  return error == std::errc() ? layer : std::numeric_limits<int64_t>::max();
}

bool is_one_or_per_head(const RawTensor& tensor, int32_t num_kv_heads) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent == 1) continue;
    if (count != 1 || extent != num_kv_heads) return false;
    count = extent;
  }
  return true;
}

// Writes the scales of one layer to `out` [Hkv].
Status read_scale(const RawTensor& tensor, int32_t num_kv_heads, float* out) {
  if (!is_one_or_per_head(tensor, num_kv_heads)) {
    return invalid_argument(
        "tensor '{}': expected one scale or one for each of {} KV heads, got "
        "shape [{}]",
        tensor.name, num_kv_heads, fmt::join(tensor.shape, ", "));
  }
  const DType dtype = tensor.dtype.value_or(DType::kI8);
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return invalid_argument("tensor '{}': expected element type F32, F16 or BF16, got {}",
                            tensor.name, tensor.type_name);
  }
  const bool shared = tensor.num_elements() == 1;
  for (int32_t head = 0; head < num_kv_heads; ++head) {
    const float scale = read_element(tensor.data.data(), dtype, shared ? 0 : head);
    if (!std::isnormal(scale) || scale < 0.0f) {  // the inverse of a subnormal may be infinite
      return invalid_argument("tensor '{}': expected scales that are positive numbers, got {}",
                              tensor.name, scale);
    }
    out[head] = scale;
  }
  return {};
}

// ScaleFinder finds the scales of each layer's keys and values by name.
class ScaleFinder {
 public:
  ScaleFinder(const NameMap& names, const TensorSource& source, size_t num_layers)
      : keys(num_layers), values(keys) {
    prefix_ = layers_prefix(names, source);
  }

  Status add(const RawTensor& tensor, std::string_view suffix,
             std::vector<const RawTensor*>& side) const {
    if (!tensor.name.ends_with(suffix)) return {};
    const std::optional<int64_t> layer = layer_of(tensor.name, prefix_);
    if (!layer) return {};
    if (*layer < 0 || *layer >= static_cast<int64_t>(side.size())) {
      return invalid_argument("tensor '{}': expected a scale of one of {} layers", tensor.name,
                              side.size());
    }
    const RawTensor*& found = side[static_cast<size_t>(*layer)];
    if (found == nullptr) {
      found = &tensor;
      return {};
    }
    if (suffix == kBoth && !found->name.ends_with(kBoth)) return {};
    if (found->dtype == tensor.dtype && std::ranges::equal(found->data, tensor.data)) return {};
    return invalid_argument("tensor '{}': expected the same scale as in '{}', got another",
                            tensor.name, found->name);
  }

  std::vector<const RawTensor*> keys, values;  // per layer; null if there is none

 private:
  std::string prefix_;
};

}  // namespace

bool is_cache_scale(std::string_view name) {
  constexpr std::array kSuffixes = {kKey, kValue, kQuery, kBoth};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

Result<CacheScales> read_cache_scales(const NameMap& names, const TensorSource& source,
                                      std::span<const int32_t> num_kv_heads) {
  ScaleFinder found(names, source, num_kv_heads.size());
  for (const RawTensor& tensor : source.tensors()) {
    QUIRE_RETURN_IF_ERROR(found.add(tensor, kKey, found.keys));
    QUIRE_RETURN_IF_ERROR(found.add(tensor, kValue, found.values));
  }
  for (const RawTensor& tensor : source.tensors()) {
    QUIRE_RETURN_IF_ERROR(found.add(tensor, kBoth, found.keys));
    QUIRE_RETURN_IF_ERROR(found.add(tensor, kBoth, found.values));
  }
  CacheScales scales;
  scales.key.resize(std::accumulate(num_kv_heads.begin(), num_kv_heads.end(), size_t{0}), 1.0f);
  scales.value = scales.key;
  size_t first = 0;  // first head of the layer; behind the last one if no layer has more heads
  for (size_t layer = 0; layer < found.keys.size(); ++layer) {
    const RawTensor* key = found.keys[layer];
    const RawTensor* value = found.values[layer];
    const int32_t heads = num_kv_heads[layer];
    if (key == nullptr || value == nullptr) ++scales.num_layers_without_scale;
    if (key != nullptr) QUIRE_RETURN_IF_ERROR(read_scale(*key, heads, scales.key.data() + first));
    if (value != nullptr)
      QUIRE_RETURN_IF_ERROR(read_scale(*value, heads, scales.value.data() + first));
    first += static_cast<size_t>(heads);
  }
  return scales;
}

}  // namespace quire
