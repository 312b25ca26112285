#include "models/vision/mmproj.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <string>
#include <string_view>

#include "models/gguf/shown_value.h"
#include "models/vision/mmproj_fields.h"

namespace quire {
namespace {

namespace json = boost::json;

struct Translation {
  MmprojFields& file;
  const GgufFile& model;
  MmprojConfig& out;
  json::object& tower;  // vision_config
};

struct Kind {
  std::string_view type;        // clip.projector_type
  std::string_view model_type;  // of config.json
  std::string_view marker;      // the token that embeddings replace
  void (*translate)(const Translation& in);
};

json::object square(int64_t side) { return {{"height", side}, {"width", side}}; }

// Adds the activation of a tower that has only a flag for it: `gelu` is what its family means by
// gelu.
void add_activation(const Translation& in, std::string_view gelu) {
  std::string_view name = "quick_gelu";
  if (in.file.flag("clip.use_gelu")) name = gelu;
  if (in.file.flag("clip.use_silu")) name = "silu";
  in.tower["hidden_act"] = json::string(name.data(), name.size());
}

void add_eps(const Translation& in) {
  if (const auto eps = in.file.number("attention.layer_norm_epsilon"))
    in.tower["layer_norm_eps"] = *eps;
}

// For towers whose readers have a fixed epsilon: the file must state the same.
void check_eps(const Translation& in, double expected) {
  const double eps = in.file.number("attention.layer_norm_epsilon").value_or(expected);
  if (static_cast<float>(eps) != static_cast<float>(expected)) {
    in.file.fail(invalid_argument("clip.vision.attention.layer_norm_epsilon: expected {}, got {}",
                                  expected, eps));
  }
}

void add_sizes(const Translation& in) {
  in.tower["hidden_size"] = in.file.integer("embedding_length");
  in.tower["num_attention_heads"] = in.file.integer("attention.head_count");
  in.tower["intermediate_size"] = in.file.integer("feed_forward_length");
  in.tower["num_hidden_layers"] = in.file.integer("block_count");
  in.tower["patch_size"] = in.file.integer("patch_size");
  in.tower["image_size"] = in.file.integer("image_size");
}

// Adds sizes of pictures, which are in one list, as grids of tiles.
void add_grids(const Translation& in) {
  const GgufValue* const points = in.file.find("image_grid_pinpoints");
  const auto sides = points == nullptr ? std::nullopt : points->as_ints();
  if (!sides || sides->size() % 2 != 0) {
    in.file.fail(invalid_argument(
        "clip.vision.image_grid_pinpoints: expected pairs of numbers, got {}", shown(points)));
    return;
  }
  json::array grids;
  for (size_t i = 0; i + 1 < sides->size(); i += 2)
    grids.push_back(json::array{(*sides)[i], (*sides)[i + 1]});
  in.out.config["image_grid_pinpoints"] = std::move(grids);
}

void translate_llava(const Translation& in) {
  add_sizes(in);
  add_eps(in);
  add_activation(in, "gelu");
  in.tower["model_type"] = "clip_vision_model";
  // Files contain only the layers that are run.
  in.out.config["vision_feature_layer"] = in.file.integer("block_count");
  if (const GgufValue* const layers = in.file.find("feature_layer")) {
    const auto numbers = layers->as_ints();
    const auto one = numbers && numbers->size() == 1 ? numbers->front() : layers->as_int();
    if (!one) {
      in.file.fail(unimplemented(
          "clip.vision.feature_layer: expected one layer, whose output alone is read"));
    }
    in.out.config["vision_feature_layer"] = one.value_or(1);
  }
  if (in.file.find("image_grid_pinpoints") != nullptr) {
    in.out.config["model_type"] = "llava_next";
    add_grids(in);
  }
  const int64_t side = in.file.integer("image_size");
  in.out.preprocessor["crop_size"] = square(side);
  in.out.preprocessor["size"] = json::object{{"shortest_edge", side}};
}

void translate_gemma3(const Translation& in) {
  add_sizes(in);
  add_eps(in);
  add_activation(in, "gelu_pytorch_tanh");
  in.tower["model_type"] = "siglip_vision_model";
  const int64_t scale = in.file.optional_integer("projector.scale_factor").value_or(4);
  const int64_t side = in.file.integer("image_size");
  const int64_t cells = side / in.file.integer("patch_size") / std::max<int64_t>(scale, 1);
  in.out.config["mm_tokens_per_image"] = cells * cells;
  in.out.preprocessor["size"] = square(side);
}

void translate_idefics3(const Translation& in) {
  add_sizes(in);
  add_eps(in);
  add_activation(in, "gelu_pytorch_tanh");
  in.tower["model_type"] = "idefics3_vision";
  in.out.config["scale_factor"] = in.file.integer("projector.scale_factor");
  in.out.preprocessor["max_image_size"] =
      json::object{{"longest_edge", in.file.integer("image_size")}};
  if (const auto longest = in.file.optional_integer("preproc_image_size"))
    in.out.preprocessor["size"] = json::object{{"longest_edge", *longest}};
}

void translate_internvl(const Translation& in) {
  add_sizes(in);
  add_eps(in);
  add_activation(in, "gelu");
  in.tower["model_type"] = "internvl_vision";
  in.tower["attention_bias"] =
      in.file.has_tensor("v.blk.0.attn_q.bias") || in.file.has_tensor("v.blk.0.attn_qkv.bias");
  in.tower["use_qk_norm"] = in.file.has_tensor("v.blk.0.attn_q_norm.weight");
  in.tower["norm_type"] = in.file.has_tensor("v.blk.0.ln1.bias") ? "layer_norm" : "rms_norm";
  in.tower["use_mean_pooling"] = !in.file.has_tensor("v.post_ln.weight");
  in.out.config["downsample_ratio"] =
      1.0 / static_cast<double>(in.file.integer("projector.scale_factor"));
  in.out.preprocessor["size"] = square(in.file.integer("image_size"));
  if (const auto tiles = in.file.optional_integer("preproc_max_tiles"))
    in.out.preprocessor["max_patches"] = *tiles;
}

// The language model decides whether the tokens of a picture attend to each other, but its file
// does not say it. They do in models whose layers have no inputs of their own (26B-A4B, 31B).
bool has_layer_inputs(const GgufFile& model) {
  const GgufValue* const width = model.find("gemma4.embedding_length_per_layer_input");
  return width != nullptr && width->as_int().value_or(0) > 0;
}

void translate_gemma4(const Translation& in) {
  add_sizes(in);
  if (const auto eps = in.file.number("attention.layer_norm_epsilon"))
    in.tower["rms_norm_eps"] = *eps;
  in.tower["model_type"] = "gemma4_vision";
  const int64_t heads = in.file.integer("attention.head_count");
  const int64_t head_dim = in.file.rows("v.blk.0.attn_q.weight") / heads;
  in.tower["head_dim"] = head_dim;
  in.tower["num_key_value_heads"] =
      in.file.rows("v.blk.0.attn_k.weight") / std::max<int64_t>(head_dim, 1);
  in.tower["position_embedding_size"] = in.file.rows("v.position_embd.weight");
  const int64_t merged = in.file.optional_integer("projector.scale_factor").value_or(3);
  in.tower["pooling_kernel_size"] = merged;
  in.tower["standardize"] = in.file.has_tensor("v.std_scale");
  in.tower["use_clipped_linears"] = in.file.has_tensor("v.blk.0.attn_q.input_min");
  if (!has_layer_inputs(in.model))
    in.out.config["text_config"] = json::object{{"use_bidirectional_attention", "vision"}};
  if (const auto most = in.file.optional_integer("image_max_pixels")) {
    const int64_t cell = in.file.integer("patch_size") * std::max<int64_t>(merged, 1);
    in.out.preprocessor["max_soft_tokens"] = *most / (cell * cell);
  }
}

// The tower is Mistral 3's if cells are merged, otherwise LLaVA's.
void translate_pixtral(const Translation& in) {
  add_sizes(in);
  check_eps(in, 1e-5);
  add_activation(in, "gelu");
  in.tower["model_type"] = "pixtral";
  in.out.config["multimodal_projector_bias"] = in.file.has_tensor("mm.1.bias");
  if (in.file.has_tensor("mm.patch_merger.weight")) {
    in.out.config["model_type"] = "mistral3";
    in.out.config["spatial_merge_size"] =
        in.file.optional_integer("spatial_merge_size").value_or(2);
  } else {
    in.out.config["vision_feature_layer"] = -1;
    in.out.config["vision_feature_select_strategy"] = "full";
  }
  in.out.preprocessor["size"] = json::object{{"longest_edge", in.file.integer("image_size")}};
}

// Adds the layers of Qwen2.5 that see the whole picture: every n-th.
void add_full_layers(const Translation& in) {
  json::array full;
  if (const GgufValue* const layers = in.file.find("wa_layer_indexes")) {
    for (const int64_t layer : layers->as_ints().value_or(std::vector<int64_t>()))
      full.emplace_back(layer);
  } else {
    const int64_t period = in.file.integer("n_wa_pattern");
    const int64_t count = std::min<int64_t>(in.file.integer("block_count"), 256);
    for (int64_t i = period - 1; i < count; i += period) full.emplace_back(i);
  }
  in.tower["fullatt_block_indexes"] = std::move(full);
  if (const auto pixels = in.file.optional_integer("window_size"))
    in.tower["window_size"] = *pixels;
}

void add_qwen_sizes(const Translation& in) {
  check_eps(in, 1e-6);
  in.tower["num_heads"] = in.file.integer("attention.head_count");
  in.tower["depth"] = in.file.integer("block_count");
  in.tower["patch_size"] = in.file.integer("patch_size");
  in.tower["spatial_merge_size"] = in.file.optional_integer("spatial_merge_size").value_or(2);
  if (const auto least = in.file.optional_integer("image_min_pixels"))
    in.out.preprocessor["min_pixels"] = *least;
  if (const auto most = in.file.optional_integer("image_max_pixels"))
    in.out.preprocessor["max_pixels"] = *most;
}

void translate_qwen2(const Translation& in) {
  add_qwen_sizes(in);
  add_activation(in, "gelu");
  const int64_t width = in.file.integer("embedding_length");
  in.tower["embed_dim"] = width;
  in.tower["hidden_size"] = in.file.integer("projection_dim");
  // Converters write a wrong width of MLPs.
  const bool is_swapped = in.file.has_swapped_mlps();
  const int64_t ffn =
      in.file.rows(is_swapped ? "v.blk.0.ffn_down.weight" : "v.blk.0.ffn_up.weight");
  if (ffn % width != 0) {
    in.file.fail(invalid_argument("v.blk.0.ffn_up.weight: expected a multiple of {} rows, got {}",
                                  width, ffn));
  }
  in.tower["mlp_ratio"] = ffn / width;
}

void add_newer_qwen_sizes(const Translation& in) {
  add_qwen_sizes(in);
  in.tower["hidden_size"] = in.file.integer("embedding_length");
  in.tower["intermediate_size"] = in.file.integer("feed_forward_length");
  in.tower["out_hidden_size"] = in.file.integer("projection_dim");
}

void translate_qwen25(const Translation& in) {
  add_newer_qwen_sizes(in);
  add_activation(in, "gelu");
  add_full_layers(in);
}

void translate_qwen3(const Translation& in) {
  add_newer_qwen_sizes(in);
  add_activation(in, "gelu_pytorch_tanh");
  in.tower["num_position_embeddings"] = in.file.rows("v.position_embd.weight");
  json::array taps;
  if (const GgufValue* const flags = in.file.find("is_deepstack_layers")) {
    const auto* const layers = std::get_if<std::vector<uint8_t>>(&flags->value);
    if (layers == nullptr) {
      in.file.fail(invalid_argument("clip.vision.is_deepstack_layers: expected flags, got {}",
                                    shown(flags)));
    }
    for (size_t i = 0; layers != nullptr && i < layers->size(); ++i) {
      if ((*layers)[i] != 0) taps.emplace_back(static_cast<int64_t>(i));
    }
  }
  in.tower["deepstack_visual_indexes"] = std::move(taps);
}

constexpr Kind kKinds[] = {
    {"mlp", "llava", "<image>", translate_llava},
    {"gemma3", "gemma3", "<image_soft_token>", translate_gemma3},
    {"gemma4v", "gemma4", "<|image|>", translate_gemma4},
    {"idefics3", "idefics3", "<image>", translate_idefics3},
    {"internvl", "internvl", "<IMG_CONTEXT>", translate_internvl},
    {"pixtral", "llava", "[IMG]", translate_pixtral},
    {"qwen2vl_merger", "qwen2_vl", "<|image_pad|>", translate_qwen2},
    {"qwen2.5vl_merger", "qwen2_5_vl", "<|image_pad|>", translate_qwen25},
    {"qwen3vl_merger", "qwen3_vl", "<|image_pad|>", translate_qwen3},
};

Result<const Kind*> kind_of(const GgufFile& file) {
  const GgufValue* const value = file.find("general.architecture");
  const auto architecture = value == nullptr ? std::nullopt : value->as_string();
  if (architecture != "clip") {
    return invalid_argument("general.architecture: expected clip, got {}",
                            architecture.value_or("nothing"));
  }
  const std::string_view type = mmproj_type(file);
  std::string known;
  for (const Kind& kind : kKinds) {
    if (kind.type == type) return &kind;
    known.append(known.empty() ? "" : ", ").append(kind.type);
  }
  return unimplemented("clip.projector_type: expected one of {}; got {}", known,
                       type.empty() ? "nothing" : type);
}

Result<int64_t> read_width(MmprojFields& file, const GgufFile& model) {
  const int64_t width = file.integer("projection_dim");
  QUIRE_RETURN_IF_ERROR(file.status());
  const GgufValue* const value = model.find("general.architecture");
  const auto architecture = value == nullptr ? std::nullopt : value->as_string();
  const GgufValue* const of_model =
      model.find(fmt::format("{}.embedding_length", architecture.value_or("")));
  const int64_t expected = of_model == nullptr ? 0 : of_model->as_int().value_or(0);
  if (width == expected) return width;
  return invalid_argument(
      "clip.vision.projection_dim: expected the width of the language model, {}, got {}: this is "
      "the projector of another model",
      expected, width);
}

Result<int64_t> find_token(const GgufFile& model, std::string_view text) {
  const GgufValue* const value = model.find("tokenizer.ggml.tokens");
  const auto tokens = value == nullptr ? std::nullopt : value->as_strings();
  if (tokens) {
    const auto found = std::find(tokens->begin(), tokens->end(), text);
    if (found != tokens->end()) return static_cast<int64_t>(found - tokens->begin());
  }
  return invalid_argument(
      "expected a language model whose vocabulary has {}, the token in whose place a picture "
      "stands",
      text);
}

void add_channels(MmprojFields& file, std::string_view key, json::object& preprocessor) {
  const GgufValue* const value = file.find(key);
  if (value == nullptr) return;
  const auto numbers = value->as_floats();
  if (!numbers) {
    return file.fail(
        invalid_argument("clip.vision.{}: expected 3 numbers, got {}", key, shown(value)));
  }
  preprocessor[key] = json::array(numbers->begin(), numbers->end());
}

}  // namespace

Result<MmprojConfig> translate_mmproj(const GgufFile& mmproj, const GgufFile& model) {
  QUIRE_ASSIGN_OR_RETURN(const Kind* const kind, kind_of(mmproj));
  MmprojFields file(mmproj);
  MmprojConfig out;
  QUIRE_ASSIGN_OR_RETURN(out.width, read_width(file, model));
  QUIRE_ASSIGN_OR_RETURN(const int64_t token, find_token(model, kind->marker));
  json::object tower;
  out.config["model_type"] = json::string(kind->model_type.data(), kind->model_type.size());
  out.config["image_token_id"] = token;
  kind->translate({file, model, out, tower});
  out.config["vision_config"] = std::move(tower);
  add_channels(file, "image_mean", out.preprocessor);
  add_channels(file, "image_std", out.preprocessor);
  if (!file.status().ok()) return file.status();
  return out;
}

}  // namespace quire
