#include "models/gguf/gguf_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <set>
#include <string>
#include <string_view>

namespace quire {
namespace {

class LayerTensors {
 public:
  explicit LayerTensors(const GgufFile& file) {
    for (const RawTensor& tensor : file.tensors()) names_.insert(tensor.name);
  }
  bool has(int64_t layer, std::string_view name) const {
    return names_.contains(fmt::format("blk.{}.{}", layer, name));
  }
  // Returns whether the layer has Mamba, a short convolution, or Kimi's DeltaNet.
  bool has_state(int64_t layer) const {
    return has(layer, "ssm_in.weight") || has(layer, "shortconv.in_proj.weight") ||
           has_delta_rule(layer);
  }
  // Returns whether the layer's queries, keys and values have convolutions of their own.
  bool has_delta_rule(int64_t layer) const { return has(layer, "ssm_conv1d_q.weight"); }

 private:
  std::set<std::string> names_;
};

int64_t integer_or_zero(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value =
      object.if_contains(boost::json::string_view(key.data(), key.size()));
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

// Models that consist of mixers only have zeros for attention and MLP.
void drop_zeros(boost::json::object& object) {
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "intermediate_size"}) {
    const boost::json::value* value = object.if_contains(key);
    if (value != nullptr && value->is_int64() && value->get_int64() == 0) object.erase(key);
  }
}

void add_layer_kinds(const LayerTensors& tensors, int64_t num_layers, boost::json::object& object) {
  boost::json::array mixers, blocks, mlps;
  for (int64_t i = 0; i < num_layers; ++i) {
    const bool has_state = tensors.has_state(i);
    const bool attends = tensors.has(i, "attn_q.weight");
    const bool routes = tensors.has(i, "ffn_gate_inp.weight");
    mixers.emplace_back(has_state ? "linear_attention" : "full_attention");
    // For models whose layers have one part each (Nemotron-H).
    blocks.emplace_back(has_state ? "mamba" : attends ? "attention" : routes ? "moe" : "mlp");
    mlps.emplace_back(routes ? "sparse" : "dense");
  }
  object["layer_types"] = std::move(mixers);
  object["layers_block_type"] = std::move(blocks);
  object["mlp_layer_types"] = std::move(mlps);
}

// Adds the head width of Mamba-2 and the ratio of the mixer's width to the model's. With `is_scan`,
// the model is Mamba, which stores the step's rank under the key of Mamba-2's heads.
void add_mixer_sizes(bool is_scan, boost::json::object& object) {
  const int64_t inner = integer_or_zero(object, "mamba_d_ssm");
  const int64_t heads = integer_or_zero(object, "mamba_n_heads");
  const int64_t hidden = integer_or_zero(object, "hidden_size");
  if (heads > 0) {
    for (const char* key : {"mamba_d_head", "mamba_head_dim"}) object[key] = inner / heads;
    if (!object.contains("num_attention_heads") && !is_scan) object["head_dim"] = inner / heads;
  }
  if (hidden > 0) {
    for (const char* key : {"expand", "mamba_expand"}) object[key] = inner / hidden;
  }
}

}  // namespace

void add_gguf_states(const GgufFile& file, boost::json::object& object) {
  constexpr int64_t kMaxLayers = 4096;
  const LayerTensors tensors(file);
  const int64_t num_layers = std::min(integer_or_zero(object, "num_hidden_layers"), kMaxLayers);
  int64_t first = 0;  // the first layer with a state
  while (first < num_layers && !tensors.has_state(first)) ++first;
  if (first >= num_layers) return;
  drop_zeros(object);
  add_layer_kinds(tensors, num_layers, object);
  add_mixer_sizes(tensors.has(first, "ssm_x.weight"), object);
  if (tensors.has_delta_rule(first))
    object["linear_num_heads"] = integer_or_zero(object, "num_attention_heads");
  const auto set = [&](std::string_view name, std::initializer_list<const char*> keys) {
    for (const char* key : keys) object[key] = tensors.has(first, name);
  };
  set("ssm_conv1d.bias", {"use_conv_bias", "mamba_conv_bias"});
  set("ssm_in.bias", {"use_bias", "mamba_proj_bias"});
  set("ssm_out.bias", {"projectors_bias"});
  set("shortconv.conv.bias", {"conv_bias"});
  set("ssm_norm.weight", {"mamba_rms_norm"});
  object["mamba_norm_before_gate"] = false;
  object["block_auto_adjust_ff_dim"] = false;  // widths are stated as they are
  // The norms in the mixer have the same epsilon as the others.
  if (const boost::json::value* eps = object.if_contains("rms_norm_eps"))
    object["mixer_rms_eps"] = *eps;
}

}  // namespace quire
