#include "facade/model_shape_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "facade/builtin_model.h"
#include "models/model_config.h"
#include "models/speech/speech_config.h"
#include "models/text_encoder.h"
#include "models/vision/vision_config.h"
#include "roofline/calibrate/step_log.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr std::string_view kStepLogStart = "{\"quire_step_log\"";

// Returns the whole config.json; of a step log, only its header is needed.
Result<std::string> read_description(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  if (!file || !std::getline(file, text)) {
    return not_found("{}: expected a config.json, its folder, a .gguf file or a step log",
                     path.string());
  }
  if (text.starts_with(kStepLogStart)) return text + "\n";
  std::stringstream rest;
  rest << file.rdbuf();
  text += "\n" + rest.str();
  if (text.size() > kMaxTextBytes) {
    return too_large("{}: expected a config.json of at most {} MiB", path.string(),
                     kMaxTextBytes >> 20);
  }
  return text;
}

// The average bits per weight of some matrices, and the arithmetic type of the largest one.
class StoredFormat {
 public:
  void add(const RawTensor& tensor) {
    elements_ += static_cast<double>(tensor.num_elements());
    bytes_ += static_cast<double>(tensor.data.size());
    if (tensor.num_elements() <= largest_) return;
    largest_ = tensor.num_elements();
    type_ = tensor.type_name;
  }
  NumberFormat format(NumberFormat otherwise) const {
    if (elements_ <= 0) return otherwise;
    const std::optional<NumberFormat> named = parse_number_format(type_);
    return {8 * bytes_ / elements_, named ? named->math : otherwise.math};
  }

 private:
  double elements_ = 0;
  double bytes_ = 0;
  int64_t largest_ = 0;
  std::string_view type_;
};

AttentionShape attention_shape(const AttentionSpec& attention) {
  if (const LatentSpec& latent = attention.latent; latent.any()) {
    return {.num_heads = attention.num_heads,
            .latent = true,
            .mla = {.q_lora_rank = static_cast<int32_t>(latent.query_rank),
                    .kv_lora_rank = latent.rank,
                    .qk_nope_head_dim = latent.nope_dim,
                    .qk_rope_head_dim = latent.rope_dim,
                    .v_head_dim = latent.value_dim},
            .index = {.top_k = attention.index.top_k,
                      .num_heads = attention.index.num_heads,
                      .head_dim = attention.index.head_dim}};
  }
  return {.num_heads = attention.num_heads,
          .num_kv_heads = attention.num_kv_heads,
          .head_dim = attention.head_dim,
          .sliding_window = attention.sliding_window,
          .shares_kv = attention.any() && !attention.has_own_kv(),
          .num_inputs = attention.reads_pairs ? 2 : 1};
}

// Returns the operations for one token: those of its convolution, and for each element of the state
// the multiplications and additions of the recurrence (decay, update, output).
int64_t scan_flops(const StateSpec& state) {
  constexpr int64_t kScan = 6;   // h = decay * h + delta * x * b, and c * h
  constexpr int64_t kDelta = 7;  // S = decay * S, S^T k, S + k u^T, S^T q
  const int64_t conv = 2 * state.conv_channels() * state.conv_kernel;
  const int64_t elements = state.inner_size() * state.key_dim;
  switch (state.kind) {
    case StateKind::kNone:
    case StateKind::kShortConv:
      return conv;
    case StateKind::kSelectiveScan:
    case StateKind::kSsd:
      return conv + kScan * elements;
    case StateKind::kDeltaRule:
      break;
  }
  return conv + kDelta * elements;
}

StateShape state_shape(const StateSpec& state) {
  if (!state.any()) return {};
  int64_t middle = 0;
  if (state.kind == StateKind::kSelectiveScan) {
    middle = state.inner_size() * (2 * state.rank + 2 * state.key_dim);
  } else if (state.has_channel_decay) {
    middle = state.rank * (state.num_heads * state.key_dim + state.inner_size());
  }
  return {.in_rows = state.in_rows(),
          .inner_size = state.inner_size(),
          .middle_elements = middle,
          .num_floats = state.state_floats(),
          .token_flops = scan_flops(state)};
}

FfnShape ffn_shape(const FfnSpec& ffn) {
  const auto mlp_size = static_cast<int32_t>(ffn.intermediate_size);
  FfnShape shape{.intermediate_size = mlp_size, .num_matrices = ffn.gated ? 3 : 2};
  if (!ffn.experts.any()) return shape;
  shape.intermediate_size = 0;
  shape.num_matrices = ffn.experts.gated ? 3 : 2;
  shape.num_experts = ffn.experts.router.num_experts;
  shape.experts_per_token = ffn.experts.router.experts_per_token;
  shape.expert_intermediate_size = static_cast<int32_t>(ffn.experts.intermediate_size);
  shape.shared_intermediate_size = mlp_size;
  return shape;
}

// Adds the tower of a model that reads its embeddings as tokens.
void add_tower(const VisionSpec& vision, ModelShape& shape) {
  if (!vision.canvas.any()) shape.tower = tower_shape(vision);
}

Result<ModelShape> read_gguf_shape(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const ModelFiles files, ModelFiles::open(path));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(files));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(files, source));
  ModelShape shape;
  shape.hidden_size = config.hidden_size;
  shape.vocab_size = config.vocab_size;
  shape.max_model_len = config.max_model_len();
  shape.tied_head = source.find("output.weight") == nullptr;
  QUIRE_ASSIGN_OR_RETURN(const DecoderSpec spec,
                         make_decoder_spec(config, shape.max_model_len, DType::kBF16));
  add_layer_shapes(spec, shape);
  if (config.family->text_encoder != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const ModelConfig reader, read_text_encoder(files, config));
    QUIRE_ASSIGN_OR_RETURN(const DecoderSpec encoder,
                           make_decoder_spec(reader, spec.cross.max_source_len, DType::kBF16));
    shape.source = source_shape(spec, encoder);
  }
  if (const auto vision = read_vision(files, shape.hidden_size); vision.ok() && *vision)
    add_tower(**vision, shape);
  StoredFormat layers, experts, head;
  for (const RawTensor& tensor : source.tensors()) {
    if (tensor.shape.size() < 2) continue;
    const bool is_layer = tensor.name.find("blk.") != std::string::npos;
    const bool is_head = tensor.name == (shape.tied_head ? "token_embd.weight" : "output.weight");
    const bool is_expert = tensor.name.find("_exps.") != std::string::npos;
    if (is_layer) (is_expert ? experts : layers).add(tensor);
    if (is_head) head.add(tensor);
  }
  const NumberFormat bf16{16, MathType::kBf16};
  shape.weights = layers.format(bf16);
  shape.expert_weights = experts.format(shape.weights);
  shape.head_weights = head.format(shape.weights);
  return shape;
}

// Returns the encoder of the sources that the decoder `config` reads.
Result<DecoderSpec> parse_encoder(const std::string& text, const ModelConfig& config,
                                  int32_t max_source_len) {
  if (config.family->text_encoder != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const ModelConfig encoder, parse_text_encoder(text, config));
    return make_decoder_spec(encoder, max_source_len, DType::kBF16);
  }
  if (config.cross.gated) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<VisionSpec> vision,
                           parse_vision(text, "", config.hidden_size));
    if (!vision) return invalid_argument("config.json: vision_config: expected a tower");
    return source_encoder(*vision);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::optional<SpeechSpec> speech, parse_speech(text));
  if (!speech) return invalid_argument("config.json: model_type: expected one with an encoder");
  return speech->encoder;
}

// Returns the shape of a model that Quire serves, from its decoder; nullopt if the text has none.
std::optional<Result<ModelShape>> parse_served_model(const std::string& text) {
  const Result<ModelConfig> config = parse_model_config(text);
  if (!config.ok()) return {};
  const Result<DecoderSpec> spec =
      make_decoder_spec(*config, config->max_model_len(), DType::kBF16);
  if (!spec.ok()) return {};
  Result<ModelShape> shape = parse_model_sizes(text);
  if (!shape.ok()) return shape;
  shape->tied_head = spec->tied_head;
  shape->hidden_size = static_cast<int32_t>(spec->hidden_size);
  shape->vocab_size = spec->vocab_size;
  shape->max_model_len = config->max_model_len();
  add_layer_shapes(*spec, *shape);
  if (spec->cross.any()) {
    const Result<DecoderSpec> encoder = parse_encoder(text, *config, spec->cross.max_source_len);
    if (!encoder.ok()) return encoder.status();
    shape->source = source_shape(*spec, *encoder);
  } else if (const auto vision = parse_vision(text, "", shape->hidden_size);
             vision.ok() && *vision) {
    add_tower(**vision, *shape);
  }
  if (const Status valid = shape->validate(); !valid.ok()) return valid.with_context("config.json");
  return shape;
}

Result<ModelShape> parse_description(const std::string& text, const std::string& where) {
  if (text.starts_with(kStepLogStart)) {
    QUIRE_ASSIGN_OR_RETURN(StepLog log, parse_step_log(text, where));
    return std::move(log.header.model);
  }
  std::optional<Result<ModelShape>> served = parse_served_model(text);
  Result<ModelShape> shape = served ? std::move(*served) : parse_model_shape(text);
  if (!shape.ok()) return shape.status().with_context(where);
  return shape;
}

Result<ModelShape> read_builtin_shape() {
  const ModelFiles files = builtin_model_files();
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
  QUIRE_ASSIGN_OR_RETURN(ModelShape shape, parse_description(std::string(text), "config.json"));
  shape.name = kBuiltinModelName;
  return shape;
}

}  // namespace

Result<ModelShape> read_model_shape(const std::string& path) {
  if (path.empty()) return read_builtin_shape();
  const fs::path given = fs::path(path).lexically_normal();
  std::error_code error;
  const bool is_folder = fs::is_directory(given, error);
  const fs::path file = is_folder ? given / "config.json" : given;
  if (file.extension() == ".gguf") {
    QUIRE_ASSIGN_OR_RETURN(ModelShape shape, read_gguf_shape(path));
    shape.name = file.stem().string();
    return shape;
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_description(file));
  QUIRE_ASSIGN_OR_RETURN(ModelShape shape, parse_description(text, file.string()));
  if (text.starts_with(kStepLogStart)) return shape;
  if (file.filename() != "config.json")
    shape.name = file.stem().string();
  else if (file.has_parent_path())
    shape.name = file.parent_path().filename().string();
  return shape;
}

namespace {

// Returns the weights of a layer's matrices apart from its attention, state and feed-forward part.
// Matrices before and after the layers are distributed over them.
int64_t more_elements(const DecoderSpec& spec, const LayerSpec& layer) {
  const int64_t hidden = spec.hidden_size;
  const auto num_layers = static_cast<int64_t>(spec.layers.size());
  int64_t elements = spec.streams.num_parameters(hidden, num_layers) / num_layers +
                     3 * spec.layer_inputs.size * hidden;
  if (layer.attention.has_output_gate) elements += layer.attention.q_rows() * hidden;
  if (const SharedBlockSpec& shared = layer.shared; shared.any()) {
    elements += hidden * hidden + shared.update_rank * (hidden + layer.ffn.gate_up_rows());
    if (shared.updates_attention) {
      elements += shared.update_rank * (2 * hidden + layer.attention.qkv_rows());
    }
  }
  return elements;
}

}  // namespace

TowerShape tower_shape(const VisionSpec& vision) {
  DecoderSpec encoder = vision.encoder;
  for (size_t i = 0; i < encoder.layers.size() && i < vision.layer_has_windows.size(); ++i) {
    if (!vision.layer_has_windows[i]) continue;
    encoder.layers[i].attention.sliding_window =
        vision.window_cells * vision.window_cells * vision.patches_per_cell();
  }
  ModelShape layers;
  add_layer_shapes(encoder, layers);
  TowerShape tower{.width = encoder.hidden_size,
                   .encoder = std::move(layers.groups),
                   .rows_per_embedding = vision.patches_per_cell(),
                   .max_embeddings = vision.max_embeddings(),
                   .is_bidirectional = vision.is_bidirectional};
  // The first pooling layer makes rows from patches.
  for (const PoolingLayerSpec& layer : encoder.pooling.layers) {
    const int64_t elements = layer.num_inputs * layer.num_outputs;
    (tower.patch_elements == 0 ? tower.patch_elements : tower.projector_elements) += elements;
  }
  return tower;
}

SourceShape source_shape(const DecoderSpec& decoder, const DecoderSpec& encoder) {
  ModelShape layers;
  add_layer_shapes(encoder, layers);
  SourceShape source{.num_heads = decoder.cross.num_heads,
                     .head_dim = decoder.cross.head_dim,
                     .num_kv_heads = decoder.cross.num_kv_heads,
                     .row_size = decoder.cross.source_size,
                     .encoder_size = encoder.hidden_size,
                     .max_rows = decoder.cross.max_source_len,
                     .is_prompt = encoder.vocab_size > 1,  // 1: the vocabulary of a class token
                     .encoder = std::move(layers.groups)};
  // Counts layers that attend only to a source.
  for (const LayerSpec& layer : decoder.layers)
    source.num_layers += layer.reads_source && !layer.attention.any() ? 1 : 0;
  for (const PoolingLayerSpec& layer : encoder.pooling.layers)
    source.front_elements += layer.num_inputs * layer.num_outputs;
  return source;
}

void add_layer_shapes(const DecoderSpec& spec, ModelShape& shape) {
  for (const LayerSpec& layer : spec.layers) {
    const LayerGroup one{.num_layers = 1,
                         .attention = attention_shape(layer.attention),
                         .ffn = ffn_shape(layer.ffn),
                         .state = state_shape(layer.state),
                         .more_elements = more_elements(spec, layer),
                         .table_elements = spec.layer_inputs.size * spec.layer_inputs.vocab_size};
    const auto same = std::find_if(shape.groups.begin(), shape.groups.end(),
                                   [&](const LayerGroup& group) { return group.is_like(one); });
    if (same != shape.groups.end()) {
      ++same->num_layers;
    } else {
      shape.groups.push_back(one);
    }
  }
}

}  // namespace quire
