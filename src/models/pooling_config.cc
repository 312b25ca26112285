#include "models/pooling_config.h"

#include <algorithm>
#include <utility>

#include "models/config_fields.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

// The names of the layers behind pooling in every family.
constexpr NameMapEntry kPoolingEntries[] = {
    {TensorRole::kPoolerDense, "pooler.dense"},
    {TensorRole::kClassifierDense, "classifier.dense"},
    {TensorRole::kClassifierDense, "head.dense"},
    {TensorRole::kClassifierDense, "score.0"},
    {TensorRole::kClassifierNorm, "head.norm"},
    {TensorRole::kClassifier, "classifier"},
    {TensorRole::kClassifier, "score"},
    {TensorRole::kClassifier, "classifier.out_proj"},
    {TensorRole::kClassifier, "score.2"},
    {TensorRole::kClassifier, kLogitRows},
    {TensorRole::kSentenceDense, "sentence_dense.{}.linear"},
};

constexpr IntRange kColumns{1, int64_t{1} << 20};

Result<boost::json::object> read_object(const ModelFiles& files, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
  return parse_config_object(text, name);
}

// Returns the last part of a Python path such as "torch.nn.modules.activation.Tanh".
std::string_view class_of(std::string_view path) {
  return path.substr(path.rfind('.') == path.npos ? 0 : path.rfind('.') + 1);
}

// Returns the activation of a classifier's scores: the one that is stated, otherwise the one that
// its number of labels implies.
ScoreActivation score_activation(const ConfigReader& reader, int64_t num_labels) {
  std::string name = reader.string("sbert_ce_default_activation_function", "");
  if (const auto tool = reader.child("sentence_transformers"))
    name = tool->string("activation_fn", name);
  if (class_of(name) == "Identity") return ScoreActivation::kNone;
  if (class_of(name) == "Sigmoid") return ScoreActivation::kSigmoid;
  const std::string problem = reader.string("problem_type", "");
  if (problem == "regression") return ScoreActivation::kNone;
  if (problem == "multi_label_classification") return ScoreActivation::kSigmoid;
  return num_labels == 1 ? ScoreActivation::kSigmoid : ScoreActivation::kSoftmax;
}

void read_labels(const boost::json::object& object, const ConfigReader& reader,
                 int64_t default_number, ModelConfig& config) {
  int64_t num_labels = reader.integer("num_labels", kColumns, default_number);
  const auto* names = object.if_contains("id2label");
  if (names != nullptr && names->is_object()) {
    num_labels = std::clamp<int64_t>(std::ssize(names->get_object()), 1, kColumns.max);
    for (int64_t i = 0; i < num_labels; ++i) {
      const auto* name = names->get_object().if_contains(std::to_string(i));
      const bool named = name != nullptr && name->is_string();
      config.labels.push_back(named ? std::string(name->get_string()) : fmt::format("LABEL_{}", i));
    }
  }
  for (int64_t i = std::ssize(config.labels); i < num_labels; ++i)
    config.labels.push_back(fmt::format("LABEL_{}", i));
}

void add_classifier(const Family& family, bool per_token, ModelConfig& config) {
  PoolingSpec& pooling = config.pooling;
  const int64_t size = config.hidden_size;
  if (family.classifier == ClassifierKind::kPooler && !per_token) {
    pooling.layers.push_back({.role = TensorRole::kPoolerDense,
                              .num_inputs = size,
                              .num_outputs = size,
                              .activation = Activation::kTanh});
  }
  if (family.classifier == ClassifierKind::kDense && !per_token) {
    pooling.layers.push_back({.role = TensorRole::kClassifierDense,
                              .num_inputs = size,
                              .num_outputs = size,
                              .activation = Activation::kTanh});
  }
  if (family.classifier == ClassifierKind::kNormedDense) {
    pooling.layers.push_back({.role = TensorRole::kClassifierDense,
                              .num_inputs = size,
                              .num_outputs = size,
                              .bias = false,
                              .activation = Activation::kGeluErf,
                              .norm = TensorRole::kClassifierNorm});
  }
  pooling.classifies = true;
  pooling.per_token = per_token;
  pooling.num_columns = std::ssize(config.labels);
  pooling.layers.push_back({.role = TensorRole::kClassifier,
                            .num_inputs = size,
                            .num_outputs = pooling.num_columns,
                            .bias = family.is_bidirectional || per_token});
}

// Qwen2.5-Math-RM and -PRM: two layers on the last hidden state, or on that of each token that ends
// a step.
void add_reward_head(const ConfigReader& reader, bool judges_steps, ModelConfig& config) {
  constexpr int64_t kExtra0 = 151651;  // <extra_0> ends a step; its id in the published vocabulary
  PoolingSpec& pooling = config.pooling;
  const int64_t size = config.hidden_size;
  pooling.classifies = true;
  pooling.per_token = judges_steps;
  if (judges_steps) {
    pooling.step_token =
        static_cast<TokenId>(reader.integer("step_tag_id", {0, config.vocab_size - 1}, kExtra0));
    pooling.activation = ScoreActivation::kSoftmax;
  }
  pooling.num_columns = std::ssize(config.labels);
  pooling.layers = {
      {.role = TensorRole::kClassifierDense,
       .num_inputs = size,
       .num_outputs = size,
       .activation = Activation::kRelu},
      {.role = TensorRole::kClassifier, .num_inputs = size, .num_outputs = pooling.num_columns}};
}

// Reads the kind of pooling if the file states it (ModernBERT).
void read_classifier_pooling(const ConfigReader& reader, ModelConfig& config) {
  const std::string pooling = reader.string("classifier_pooling", "");
  if (pooling == "cls") config.pooling.kind = PoolingKind::kCls;
  if (pooling == "mean") config.pooling.kind = PoolingKind::kMean;
  if (!pooling.empty() && pooling != "cls" && pooling != "mean")
    reader.fail(fmt::format("classifier_pooling: expected cls or mean, got {}", pooling));
}

Status add_dense(const ModelFiles& files, const SentenceModule& module, int32_t index,
                 ModelConfig& config) {
  const std::string name = module.path + "/config.json";
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, read_object(files, name));
  Status status;
  const ConfigReader reader(object, name, {}, status);
  PoolingLayerSpec layer{.role = TensorRole::kSentenceDense, .index = index};
  layer.num_inputs = reader.integer("in_features", kColumns);
  layer.num_outputs = reader.integer("out_features", kColumns);
  layer.bias = reader.boolean("bias", true);
  const std::string activation =
      reader.string("activation_function", "torch.nn.modules.activation.Tanh");
  if (class_of(activation) == "Tanh") {
    layer.activation = Activation::kTanh;
  } else if (class_of(activation) == "GELU") {
    layer.activation = Activation::kGeluErf;
  } else if (class_of(activation) == "ReLU") {
    layer.activation = Activation::kRelu;
  } else if (class_of(activation) != "Identity") {
    reader.fail(fmt::format("activation_function: expected Tanh, GELU, ReLU or Identity, got {}",
                            activation));
  }
  if (status.ok() && layer.num_inputs != config.pooling.num_columns) {
    reader.fail(fmt::format("in_features: expected {}, got {}", config.pooling.num_columns,
                            layer.num_inputs));
  }
  if (!status.ok()) return status;
  config.pooling.num_columns = layer.num_outputs;
  config.pooling.layers.push_back(layer);
  return {};
}

// Reads the activation of scores from config_sentence_transformers.json.
Status read_score_function(const ModelFiles& files, ModelConfig& config) {
  constexpr const char* kName = "config_sentence_transformers.json";
  config.pooling.activation = ScoreActivation::kSigmoid;
  if (!files.contains(kName)) return {};
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, read_object(files, kName));
  Status status;
  const ConfigReader reader(object, kName, {}, status);
  const std::string path = reader.string("activation_fn", "Sigmoid");
  const std::string_view name = class_of(path);
  if (name == "Identity") config.pooling.activation = ScoreActivation::kNone;
  if (name != "Identity" && name != "Sigmoid")
    reader.fail(fmt::format("activation_fn: expected Sigmoid or Identity, got {}", path));
  return status;
}

// A reranker that answers yes or no (Qwen3-Reranker): the head's rows for the two tokens are a
// classifier.
Status add_logit_score(const ModelFiles& files, const SentenceModule& module, ModelConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const LogitTokens tokens,
                         read_logit_tokens(files, module, config.vocab_size));
  if (config.final_logit_softcapping || config.logit_multiplier != 1.0 || config.head_bias) {
    return unimplemented("modules.json: LogitScore: expected a head without bias, scale or cap");
  }
  PoolingSpec& pooling = config.pooling;
  pooling.kind = PoolingKind::kLast;
  pooling.classifies = true;
  pooling.num_columns = 1;
  pooling.is_difference = tokens.no.has_value();
  pooling.layers = {{.role = TensorRole::kClassifier,
                     .num_inputs = config.hidden_size,
                     .num_outputs = tokens.count(),
                     .bias = false}};
  config.labels = {"LABEL_0"};
  return read_score_function(files, config);
}

Status add_modules(const ModelFiles& files, ModelConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("modules.json"));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SentenceModule> modules, parse_sentence_modules(text));
  config.pooling.normalizes = false;
  for (size_t i = 0; i < modules.size(); ++i) {
    const SentenceModule& module = modules[i];
    if (module.kind == "Pooling") {
      const std::string name = module.path + "/config.json";
      QUIRE_ASSIGN_OR_RETURN(const std::string_view pooling, files.text(name));
      QUIRE_ASSIGN_OR_RETURN(config.pooling.kind, parse_pooling_kind(pooling, name));
    } else if (module.kind == "Dense") {
      QUIRE_RETURN_IF_ERROR(add_dense(files, module, static_cast<int32_t>(i), config));
    } else if (module.kind == "LogitScore") {
      QUIRE_RETURN_IF_ERROR(add_logit_score(files, module, config));
    } else if (module.kind == "Normalize") {
      config.pooling.normalizes = true;
    } else if (module.kind != "Transformer") {
      return unimplemented(
          "modules.json: expected Transformer, Pooling, Dense, Normalize and LogitScore, got {}",
          module.kind);
    }
  }
  return {};
}

// sentence-transformers cuts texts to this length.
Status read_max_seq_length(const ModelFiles& files, ModelConfig& config) {
  constexpr const char* kName = "sentence_bert_config.json";
  if (!files.contains(kName)) return {};
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, read_object(files, kName));
  Status status;
  const ConfigReader reader(object, kName, {}, status);
  config.max_seq_length = reader.integer("max_seq_length", {1}, 0);
  return status;
}

void add_names(ModelConfig& config, const NameMap& base) {
  config.names = {.entries = kPoolingEntries,
                  .prefixes = base.prefixes,
                  .ignored = base.ignored,
                  .norm_offset = base.norm_offset,
                  .base = &base,
                  .ignores_later_layers = base.ignores_later_layers};
}

}  // namespace

Status read_pooling(const ModelFiles& files, ModelConfig& config) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, read_object(files, "config.json"));
  Status status;
  const ConfigReader reader(object, "config.json", {}, status);
  const std::vector<std::string> classes = reader.strings("architectures");
  const std::string_view name = classes.empty() ? std::string_view() : classes.front();
  const Family& family = *config.family;
  const bool per_token = name.ends_with("ForTokenClassification");
  const bool classifies = per_token || name.ends_with("ForSequenceClassification");
  const bool judges_steps = name.ends_with("ForProcessRewardModel");
  const bool rewards = judges_steps || name.ends_with("ForRewardModel");
  const bool has_modules = files.contains("modules.json");
  // ChatGLM uses this class name for models with a head.
  const bool is_trunk =
      name.ends_with("Model") && !name.ends_with("LMHeadModel") && name != "ChatGLMModel";
  if (!classifies && !has_modules && !config.is_bidirectional && !is_trunk) return status;
  if (family.reads_source) {
    return unimplemented(
        "config.json: architectures: expected a model that generates, with an encoder and a "
        "decoder, got {}",
        has_modules ? "modules.json beside it" : name);
  }
  config.pooling = {.kind = family.default_pooling, .num_columns = config.hidden_size};
  add_names(config, family.hf_names);
  if (rewards) {
    read_labels(object, reader, judges_steps ? 2 : 1, config);
    add_reward_head(reader, judges_steps, config);
    return status;
  }
  if (classifies) {
    read_labels(object, reader, 2, config);
    config.pooling.activation = score_activation(reader, std::ssize(config.labels));
    add_classifier(family, per_token, config);
    read_classifier_pooling(reader, config);
    return status;
  }
  if (has_modules) QUIRE_RETURN_IF_ERROR(add_modules(files, config));
  QUIRE_RETURN_IF_ERROR(read_max_seq_length(files, config));
  return status;
}

namespace {

// Adds the modules 2_Dense and 3_Dense of EmbeddingGemma, if the file contains them.
void add_gguf_dense(const GgufFile& file, ModelConfig& config) {
  for (const int32_t index : {2, 3}) {
    const std::string name = fmt::format("dense_{}.weight", index);
    for (const RawTensor& tensor : file.tensors()) {
      if (tensor.name != name || tensor.shape.size() != 2) continue;
      config.pooling.layers.push_back({.role = TensorRole::kSentenceDense,
                                       .index = index,
                                       .num_inputs = config.pooling.num_columns,
                                       .num_outputs = tensor.shape[0],
                                       .bias = false});
      config.pooling.num_columns = tensor.shape[0];
    }
  }
}

}  // namespace

Status read_gguf_pooling(const GgufFile& file, ModelConfig& config) {
  const GgufValue* value =
      file.find(fmt::format("{}.pooling_type", config.family->gguf_architecture));
  const int64_t type = value == nullptr ? 0 : value->as_int().value_or(-1);
  if (type == 0 && !config.is_bidirectional) return {};
  if (value == nullptr) {  // as in files of T5
    config.pooling = {.kind = config.family->default_pooling, .num_columns = config.hidden_size};
    return {};
  }
  constexpr PoolingKind kKinds[] = {PoolingKind::kCls, PoolingKind::kMean, PoolingKind::kCls,
                                    PoolingKind::kLast};
  if (type < 0 || type >= std::ssize(kKinds)) {
    return unimplemented(
        "{}.pooling_type: expected 0 (none), 1 (mean), 2 (cls) or 3 (last), got {}",
        config.family->gguf_architecture, type);
  }
  config.pooling = {.kind = kKinds[type], .num_columns = config.hidden_size};
  add_gguf_dense(file, config);
  return {};
}

}  // namespace quire
