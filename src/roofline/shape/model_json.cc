// Reads and writes a ModelShape as JSON.
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "roofline/hardware/json_fields.h"
#include "roofline/shape/model_shape.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxGroups = 4096;

json::object written(const NumberFormat& format) {
  return {{"bits", format.bits}, {"math", std::string(to_string(format.math))}};
}

json::object written(const AttentionShape& attention) {
  json::object object = {{"num_heads", attention.num_heads},
                         {"num_kv_heads", attention.num_kv_heads},
                         {"head_dim", attention.head_dim},
                         {"sliding_window", attention.sliding_window}};
  if (attention.shares_kv) object["shares_kv"] = true;
  if (attention.num_inputs > 1) object["num_inputs"] = attention.num_inputs;
  if (!attention.latent) return object;
  const LatentAttention& mla = attention.mla;
  object["mla"] = json::object{{"q_lora_rank", mla.q_lora_rank},
                               {"kv_lora_rank", mla.kv_lora_rank},
                               {"qk_nope_head_dim", mla.qk_nope_head_dim},
                               {"qk_rope_head_dim", mla.qk_rope_head_dim},
                               {"v_head_dim", mla.v_head_dim}};
  if (const IndexShape& index = attention.index; index.top_k > 0) {
    object["index"] = json::object{
        {"top_k", index.top_k}, {"num_heads", index.num_heads}, {"head_dim", index.head_dim}};
  }
  return object;
}

json::object written(const FfnShape& ffn) {
  return {{"intermediate_size", ffn.intermediate_size},
          {"num_matrices", ffn.num_matrices},
          {"num_experts", ffn.num_experts},
          {"experts_per_token", ffn.experts_per_token},
          {"expert_intermediate_size", ffn.expert_intermediate_size},
          {"shared_intermediate_size", ffn.shared_intermediate_size}};
}

json::object written(const StateShape& state) {
  return {{"in_rows", state.in_rows},
          {"inner_size", state.inner_size},
          {"middle_elements", state.middle_elements},
          {"num_floats", state.num_floats},
          {"token_flops", state.token_flops}};
}

int32_t size_of(const JsonFields& fields, std::string_view key) {
  return static_cast<int32_t>(fields.integer({key}, 0, 0, int64_t{1} << 24));
}

NumberFormat read_format(const JsonFields& fields, std::string_view key) {
  NumberFormat format;
  const auto child = fields.child(key);
  if (!child) return format;
  format.bits = child->number("bits", format.bits, {0.5, 64});
  const std::string math = child->string("math", "bf16");
  const std::optional<MathType> parsed = parse_math_type(math);
  if (!parsed) child->fail("math: expected f32, bf16, fp8, int8 or fp4, got " + math);
  format.math = parsed.value_or(MathType::kBf16);
  return format;
}

AttentionShape read_attention(const JsonFields& fields) {
  AttentionShape attention;
  attention.num_heads = size_of(fields, "num_heads");
  attention.num_kv_heads = size_of(fields, "num_kv_heads");
  attention.head_dim = size_of(fields, "head_dim");
  attention.sliding_window = size_of(fields, "sliding_window");
  attention.shares_kv = fields.boolean("shares_kv", false);
  attention.num_inputs = static_cast<int32_t>(fields.integer({"num_inputs"}, 1, 1, 16));
  if (const auto mla = fields.child("mla")) {
    attention.latent = true;
    attention.mla = {.q_lora_rank = size_of(*mla, "q_lora_rank"),
                     .kv_lora_rank = size_of(*mla, "kv_lora_rank"),
                     .qk_nope_head_dim = size_of(*mla, "qk_nope_head_dim"),
                     .qk_rope_head_dim = size_of(*mla, "qk_rope_head_dim"),
                     .v_head_dim = size_of(*mla, "v_head_dim")};
  }
  if (const auto index = fields.child("index")) {
    attention.index = {.top_k = size_of(*index, "top_k"),
                       .num_heads = size_of(*index, "num_heads"),
                       .head_dim = size_of(*index, "head_dim")};
  }
  return attention;
}

FfnShape read_ffn(const JsonFields& fields) {
  return {.intermediate_size = size_of(fields, "intermediate_size"),
          .num_matrices = static_cast<int32_t>(fields.integer({"num_matrices"}, 3, 1, 8)),
          .num_experts = size_of(fields, "num_experts"),
          .experts_per_token = size_of(fields, "experts_per_token"),
          .expert_intermediate_size = size_of(fields, "expert_intermediate_size"),
          .shared_intermediate_size = size_of(fields, "shared_intermediate_size")};
}

StateShape read_state(const JsonFields& fields) {
  const auto size = [&](std::string_view key) {
    return fields.integer({key}, 0, 0, int64_t{1} << 40);
  };
  return {.in_rows = size("in_rows"),
          .inner_size = size("inner_size"),
          .middle_elements = size("middle_elements"),
          .num_floats = size("num_floats"),
          .token_flops = size("token_flops")};
}

json::array written(const std::vector<LayerGroup>& groups) {
  json::array array;
  for (const LayerGroup& group : groups) {
    json::object layers{{"num_layers", group.num_layers},
                        {"attention", written(group.attention)},
                        {"ffn", written(group.ffn)}};
    if (group.state.any()) layers["state"] = written(group.state);
    if (group.more_elements > 0) layers["more_elements"] = group.more_elements;
    if (group.table_elements > 0) layers["table_elements"] = group.table_elements;
    array.push_back(std::move(layers));
  }
  return array;
}

json::object written(const SourceShape& source) {
  return {{"num_heads", source.num_heads},
          {"head_dim", source.head_dim},
          {"num_kv_heads", source.num_kv_heads},
          {"num_layers", source.num_layers},
          {"row_size", source.row_size},
          {"encoder_size", source.encoder_size},
          {"max_rows", source.max_rows},
          {"is_prompt", source.is_prompt},
          {"front_elements", source.front_elements},
          {"encoder", written(source.encoder)}};
}

json::object written(const TowerShape& tower) {
  return {{"width", tower.width},
          {"rows_per_embedding", tower.rows_per_embedding},
          {"patch_elements", tower.patch_elements},
          {"projector_elements", tower.projector_elements},
          {"max_embeddings", tower.max_embeddings},
          {"is_bidirectional", tower.is_bidirectional},
          {"encoder", written(tower.encoder)}};
}

void read_groups(const JsonFields& fields, std::string_view key, Status& status,
                 std::vector<LayerGroup>& into) {
  const json::value* groups = fields.object().if_contains(key);
  if (groups == nullptr || !groups->is_array() || groups->get_array().size() > kMaxGroups) {
    return fields.fail(fmt::format("{}: expected an array of at most {} objects", key, kMaxGroups));
  }
  for (const json::value& element : groups->get_array()) {
    if (!element.is_object()) return fields.fail(fmt::format("{}: expected objects", key));
    const JsonFields group(element.get_object(), fmt::format("{}: {}", fields.where(), key),
                           status);
    LayerGroup layers;
    layers.num_layers = static_cast<int32_t>(group.integer({"num_layers"}, {}, 1, 1 << 20));
    if (const auto attention = group.child("attention")) {
      layers.attention = read_attention(*attention);
    }
    if (const auto ffn = group.child("ffn")) layers.ffn = read_ffn(*ffn);
    if (const auto state = group.child("state")) layers.state = read_state(*state);
    layers.more_elements = group.integer({"more_elements"}, 0, 0, int64_t{1} << 40);
    layers.table_elements = group.integer({"table_elements"}, 0, 0, int64_t{1} << 40);
    into.push_back(layers);
  }
}

// Returns 0 if the file lacks the key.
int32_t count_of(const JsonFields& fields, std::string_view key) {
  return static_cast<int32_t>(fields.integer({key}, 0, 0, 1 << 20));
}

SourceShape read_source(const JsonFields& fields, Status& status) {
  SourceShape source{.num_heads = size_of(fields, "num_heads"),
                     .head_dim = size_of(fields, "head_dim"),
                     .num_kv_heads = count_of(fields, "num_kv_heads"),
                     .num_layers = count_of(fields, "num_layers"),
                     .row_size = size_of(fields, "row_size"),
                     .encoder_size = count_of(fields, "encoder_size"),
                     .max_rows = size_of(fields, "max_rows"),
                     .is_prompt = fields.boolean("is_prompt", false),
                     .front_elements = fields.integer({"front_elements"}, 0, 0, int64_t{1} << 40)};
  read_groups(fields, "encoder", status, source.encoder);
  return source;
}

TowerShape read_tower(const JsonFields& fields, Status& status) {
  TowerShape tower{
      .width = size_of(fields, "width"),
      .rows_per_embedding = size_of(fields, "rows_per_embedding"),
      .patch_elements = fields.integer({"patch_elements"}, 0, 0, int64_t{1} << 40),
      .projector_elements = fields.integer({"projector_elements"}, 0, 0, int64_t{1} << 40),
      .max_embeddings = size_of(fields, "max_embeddings"),
      .is_bidirectional = fields.boolean("is_bidirectional", false)};
  read_groups(fields, "encoder", status, tower.encoder);
  return tower;
}

}  // namespace

std::string to_json(const ModelShape& model) {
  json::object object = {{"name", model.name},
                         {"hidden_size", model.hidden_size},
                         {"vocab_size", model.vocab_size},
                         {"max_model_len", model.max_model_len},
                         {"tied_head", model.tied_head},
                         {"weights", written(model.weights)},
                         {"expert_weights", written(model.expert_weights)},
                         {"head_weights", written(model.head_weights)},
                         {"activations", written(model.activations)},
                         {"kv", written(model.kv)}};
  object["groups"] = written(model.groups);
  if (model.source.any()) object["source"] = written(model.source);
  if (model.tower.any()) object["tower"] = written(model.tower);
  return json::serialize(object);
}

Result<ModelShape> parse_model_description(std::string_view text, std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_json_object(text, where, kMaxBytes));
  Status status;
  const JsonFields fields(object, std::string(where), status);
  ModelShape model;
  model.name = fields.string("name");
  model.hidden_size = fields.integer({"hidden_size"}, {}, 1, int64_t{1} << 24);
  model.vocab_size = fields.integer({"vocab_size"}, {}, 1, int64_t{1} << 24);
  model.max_model_len = fields.integer({"max_model_len"}, 0);
  model.tied_head = fields.boolean("tied_head", false);
  model.weights = read_format(fields, "weights");
  model.expert_weights = read_format(fields, "expert_weights");
  model.head_weights = read_format(fields, "head_weights");
  model.activations = read_format(fields, "activations");
  model.kv = read_format(fields, "kv");
  read_groups(fields, "groups", status, model.groups);
  if (const auto source = fields.child("source")) model.source = read_source(*source, status);
  if (const auto tower = fields.child("tower")) model.tower = read_tower(*tower, status);
  QUIRE_RETURN_IF_ERROR(status);
  if (const Status valid = model.validate(); !valid.ok()) return valid.with_context(where);
  return model;
}

}  // namespace quire
