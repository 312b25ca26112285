#include "models/gguf/gguf_streams.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "models/gguf/shown_value.h"

namespace quire {
namespace {

const RawTensor* find_tensor(const GgufFile& file, std::string_view name) {
  const auto& tensors = file.tensors();
  const auto at = std::ranges::lower_bound(tensors, name, {}, &RawTensor::name);
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

void copy_integer(const GgufFile& file, std::string_view from, const char* to,
                  boost::json::object& object) {
  const GgufValue* value = file.find(from);
  const auto integer = value == nullptr ? std::nullopt : value->as_int();
  if (integer) object[to] = *integer;
}

// Minus infinity marks a layer that is not sparse.
Status add_sparsity(const GgufFile& file, boost::json::object& object) {
  constexpr std::string_view kKey = "gemma3n.activation_sparsity_scale";
  const GgufValue* value = file.find(kKey);
  if (value == nullptr) return {};
  const auto deviations = value->as_floats();
  if (!deviations)
    return invalid_argument("{}: expected one number per layer, got {}", kKey, shown(value));
  boost::json::array list;
  for (const double one : *deviations) {
    if (std::isnan(one) || one > 1e30)
      return invalid_argument("{}: expected deviations from a mean, got {}", kKey, one);
    list.emplace_back(std::max(one, -1e300));
  }
  object["activation_sparsity_scale"] = std::move(list);
  return {};
}

}  // namespace

Status add_gguf_streams(const GgufFile& file, boost::json::object& object) {
  const RawTensor* narrow = find_tensor(file, "blk.0.laurel_l.weight");
  if (narrow == nullptr) return {};
  if (!narrow->shape.empty()) object["laurel_rank"] = narrow->shape[0];
  copy_integer(file, "gemma3n.altup.num_inputs", "altup_num_inputs", object);
  copy_integer(file, "gemma3n.altup.active_idx", "altup_active_idx", object);
  // Older files do not say which layers read the keys and values of others: all after the first 20
  // do.
  constexpr int64_t kLayersWithKeys = 20;
  const boost::json::value* layers = object.if_contains("num_hidden_layers");
  if (!object.contains("num_kv_shared_layers") && layers != nullptr && layers->is_int64()) {
    object["num_kv_shared_layers"] =
        std::max(layers->get_int64(), kLayersWithKeys) - kLayersWithKeys;
  }
  return add_sparsity(file, object);
}

}  // namespace quire
