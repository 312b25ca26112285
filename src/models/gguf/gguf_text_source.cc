#include "models/gguf/gguf_text_source.h"

#include <algorithm>

namespace quire {

void add_gguf_text_source(const GgufFile& file, boost::json::object& object) {
  const auto& tensors = file.tensors();
  const auto has = [&](std::string_view name) {
    return std::ranges::find(tensors, name, &RawTensor::name) != tensors.end();
  };
  if (!has("enc.blk.0.attn_rel_b.weight")) return;
  object["model_type"] = has("enc.blk.1.attn_rel_b.weight") ? "umt5" : "t5";
  // Files contain neither the activation nor the distance beyond which biases are equal. All models
  // whose MLPs have a gate use gated-gelu, and all were trained with a distance of 128.
  object["feed_forward_proj"] = has("enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu";
}

}  // namespace quire
