#include "models/drafting/draft_head.h"

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "models/config_fields.h"
#include "models/config_reader.h"
#include "models/drafting/token_map.h"
#include "weights/names/name_prefix.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr NameMapEntry kDraftHeadEntries[] = {
    {TensorRole::kDraftInput, "fc"},
    {TensorRole::kDraftEmbeddingNorm, "embedding_norm"},
    {TensorRole::kDraftHiddenNorm, "hidden_norm"},
};
constexpr NamePrefix kPrefixes[] = {{"", ""}};

// Tensors under the names of kDraftHeadEntries and of a family, without a prefix, and with layers
// numbered from 0.
class Tensors {
 public:
  void add(std::string name, RawTensor tensor) {
    tensor.name = std::move(name);
    all_.push_back(std::move(tensor));
  }
  const RawTensor* find(std::string_view name) const {
    const auto it = std::ranges::find(all_, name, &RawTensor::name);
    return it == all_.end() ? nullptr : &*it;
  }
  std::optional<RawTensor> take(std::string_view name) {
    const auto it = std::ranges::find(all_, name, &RawTensor::name);
    if (it == all_.end()) return std::nullopt;
    RawTensor tensor = std::move(*it);
    all_.erase(it);
    return tensor;
  }
  Result<TensorSource> finish() && {
    std::ranges::sort(all_, {}, &RawTensor::name);
    const auto twin = std::ranges::adjacent_find(all_, {}, &RawTensor::name);
    if (twin != all_.end())
      return invalid_argument("tensor '{}': expected once, got twice", twin->name);
    return TensorSource(std::move(all_));
  }

 private:
  std::vector<RawTensor> all_;
};

struct Rename {
  std::string_view from, to;
};

std::string renamed(std::string_view name, std::span<const Rename> renames) {
  for (const Rename& rename : renames) {
    if (name.starts_with(rename.from))
      return std::string(rename.to).append(name.substr(rename.from.size()));
  }
  return std::string(name);
}

// Returns a tensor of the served model by its role; null if the served model has no tensor of that
// role.
const RawTensor* find_in(const TensorSource& source, const NameMap& names, TensorRole role) {
  const NameMapEntry* entry = find_role(names, role);
  if (entry == nullptr) return nullptr;
  return source.find(tensor_name(*entry, find_prefix(names, source), -1, "weight"));
}

// Takes from the served model what the draft model shares with it and its own files lack.
Status borrow(const DraftTarget& target, const TensorSource& theirs, Tensors& tensors) {
  const NameMap& names = target.config.names;
  const RawTensor* embedding = find_in(theirs, names, TensorRole::kTokenEmbedding);
  const RawTensor* head =
      target.config.tie_word_embeddings ? embedding : find_in(theirs, names, TensorRole::kLmHead);
  const auto add = [&](std::string_view name, const RawTensor* tensor) -> Status {
    if (tensors.find(name) != nullptr) return {};
    if (tensor == nullptr || !tensor->dtype) {
      return unimplemented(
          "tensor '{}': expected it among the drafter's, or as floats in the served model's "
          "safetensors, got neither",
          name);
    }
    tensors.add(std::string(name), *tensor);
    return {};
  };
  QUIRE_RETURN_IF_ERROR(add("embed_tokens.weight", embedding));
  return add("lm_head.weight", head);
}

NameMap names_of(const Family& family) {
  NameMap names = family.hf_names;
  names.entries = kDraftHeadEntries;
  names.prefixes = kPrefixes;
  names.base = &family.hf_names;
  return names;
}

Result<json::object> read_object(const ModelFiles& files) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
  return parse_config_object(text, "config.json");
}

// Returns the decoder's part of a configuration, which the speculators format and vLLM's older
// files keep in an object of its own.
json::object& decoder_part(json::object& config) {
  for (const std::string_view key : {"transformer_layer_config", "model"}) {
    json::value* part = config.if_contains(key);
    if (part != nullptr && part->is_object()) return part->get_object();
  }
  return config;
}

// Checks the kind that the speculators format names.
void check_kind(const ConfigReader& reader) {
  const std::string kind = reader.string("speculators_model_type", "eagle3");
  if (kind != "eagle3" && kind != "eagle")
    reader.fail(fmt::format("speculators_model_type: expected eagle or eagle3, got {}", kind));
}

// Reads how drafts are to be accepted, in the same format. Quire only accepts exact drafts.
Status read_proposal_methods(const json::object& config, DraftHead& head) {
  const json::value* speculators = config.if_contains("speculators_config");
  if (speculators == nullptr || !speculators->is_object()) return {};
  const json::value* methods = speculators->get_object().if_contains("proposal_methods");
  if (methods == nullptr || !methods->is_array()) return {};
  for (const json::value& method : methods->get_array()) {
    if (!method.is_object()) {
      return invalid_argument("config.json: proposal_methods: expected objects, got {}",
                              shown(method));
    }
    Status status;
    const ConfigReader reader(method.get_object(), "config.json: proposal_methods", {}, status);
    const auto accept_k = reader.integer("verifier_accept_k", {0, 1 << 20}, 1);
    const json::value* tolerance = method.get_object().if_contains("accept_tolerance");
    const bool is_exact =
        tolerance == nullptr || tolerance->is_null() || *tolerance == 0 || *tolerance == 0.0;
    constexpr std::string_view kWhy = "since drafts never change an answer";
    if (accept_k > 1)
      reader.fail(fmt::format("verifier_accept_k: expected 1, {}, got {}", kWhy, accept_k));
    if (!is_exact)
      reader.fail(fmt::format("accept_tolerance: expected 0, {}, got {}", kWhy, shown(*tolerance)));
    head.num_speculative_tokens =
        static_cast<int32_t>(reader.integer("speculative_tokens", {0, 64}, 0));
    if (!status.ok()) return status;
  }
  return {};
}

// Returns the configuration as that of a decoder with the served model's vocabulary and length.
Result<ModelConfig> decoder_config(const json::object& part, const DraftTarget& target) {
  json::object object = part;
  if (!object.contains("model_type") || object["model_type"] == "eagle")
    object["model_type"] = "llama";
  object["vocab_size"] = target.config.vocab_size;
  object["tie_word_embeddings"] = false;
  const json::value* own = object.if_contains("max_position_embeddings");
  const int64_t length = own != nullptr && own->is_int64() ? own->get_int64() : 0;
  object["max_position_embeddings"] = std::max(length, target.config.max_model_len());
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, parse_model_config(json::serialize(object)));
  config.names = names_of(*config.family);
  config.tie_word_embeddings = false;
  return config;
}

// Returns the layers whose inputs are read; the default is one near each end and one in the middle.
std::vector<int32_t> read_layers(const ConfigReader& reader, int64_t num_layers) {
  constexpr std::string_view kKey = "eagle_aux_hidden_state_layer_ids";
  const std::optional<ConfigReader> inner = reader.child("eagle_config");
  const ConfigReader& where = inner && inner->has(kKey) ? *inner : reader;
  std::vector<double> said = where.numbers(kKey);
  if (said.empty()) {
    const auto count = static_cast<double>(num_layers);
    said = {std::min(2.0, count), static_cast<double>(num_layers / 2), std::max(0.0, count - 3)};
  }
  std::vector<int32_t> layers;
  for (const double layer : said) {
    if (!(layer >= 0 && layer <= static_cast<double>(num_layers)) ||
        layer != static_cast<double>(static_cast<int32_t>(layer)) || said.size() > 16) {
      where.fail(
          fmt::format("{}: expected up to 16 layers in [0, {}], those of the served model, "
                      "got {}",
                      kKey, num_layers, layer));
      return {0};
    }
    layers.push_back(static_cast<int32_t>(layer));
  }
  return layers;
}

void refuse_variants(const ConfigReader& reader) {
  for (const std::string_view key : {"norm_before_fc", "fc_norm"}) {
    if (reader.boolean(key, false)) reader.fail(fmt::format("{}: expected false, got true", key));
  }
  const std::optional<ConfigReader> eagle = reader.child("eagle_config");
  if (eagle && !eagle->boolean("use_aux_hidden_state", true))
    eagle->fail("use_aux_hidden_state: expected true, got false");
}

// Reads which tokens the head covers.
Status read_vocabulary(const ConfigReader& reader, Tensors& tensors, DraftHead& head) {
  const int64_t vocab_size = head.config.vocab_size;
  const int64_t size = reader.integer("draft_vocab_size", {1, vocab_size}, vocab_size);
  tensors.take("t2d");
  const std::optional<RawTensor> map = tensors.take("d2t");
  if (!reader.status().ok()) return reader.status();
  if (!map && size == vocab_size) return {};
  head.config.head_size = size;
  if (map) {
    QUIRE_ASSIGN_OR_RETURN(head.token_map, read_token_map(*map, size, vocab_size, true));
    return {};
  }
  head.token_map.resize(static_cast<size_t>(size));
  std::iota(head.token_map.begin(), head.token_map.end(), 0);
  return {};
}

Status read_eagle3(const ConfigReader& reader, const DraftTarget& target, Tensors& tensors,
                   DraftHead& head) {
  ModelConfig& config = head.config;
  refuse_variants(reader);
  head.layers = read_layers(reader, target.config.num_hidden_layers);
  config.draft_input = {
      .hidden_size = std::ssize(head.layers) * target.config.hidden_size,
      .is_beside = true,
      .has_bias = tensors.find("fc.bias") != nullptr,
      .streams_normed = reader.boolean("norm_before_residual", false),
      .feeds_normed = reader.boolean("norm_output", false),
  };
  if (config.num_hidden_layers != 1) {
    reader.fail(fmt::format("num_hidden_layers: expected 1 of an EAGLE-3 head, got {}",
                            config.num_hidden_layers));
  }
  return read_vocabulary(reader, tensors, head);
}

Status read_eagle(const ConfigReader& reader, const DraftTarget& target, const Tensors& tensors,
                  DraftHead& head) {
  ModelConfig& config = head.config;
  config.draft_input = {
      .hidden_size = target.config.hidden_size,
      .has_norms = false,
      .has_bias = tensors.find("fc.bias") != nullptr,
      .first_layer_norms = tensors.find("layers.0.input_layernorm.weight") != nullptr,
  };
  config.block.final_norm = tensors.find("norm.weight") != nullptr;
  return reader.status();
}

constexpr Rename kEagleRenames[] = {{"model.", ""}};
constexpr Rename kEagle3Renames[] = {
    {"model.midlayer.input_layernorm.", "embedding_norm."},
    {"midlayer.input_layernorm.", "embedding_norm."},
    {"model.layers.0.input_layernorm.", "embedding_norm."},
    {"layers.0.input_layernorm.", "embedding_norm."},
    {"model.midlayer.hidden_norm.", "hidden_norm."},
    {"midlayer.hidden_norm.", "hidden_norm."},
    {"model.layers.0.hidden_norm.", "hidden_norm."},
    {"layers.0.hidden_norm.", "hidden_norm."},
    {"model.midlayer.", "layers.0."},
    {"midlayer.", "layers.0."},
    {"model.", ""},
};

Status read_eagles(DraftHeadKind kind, const DraftTarget& target, DraftHead& head) {
  const ModelFiles& files = *head.files.front();
  QUIRE_ASSIGN_OR_RETURN(json::object object, read_object(files));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource own, TensorSource::open(files));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource theirs, TensorSource::open(*target.files));
  const bool is_eagle3 = kind == DraftHeadKind::kEagle3;
  Tensors tensors;
  for (const RawTensor& tensor : own.tensors()) {
    tensors.add(
        is_eagle3 ? renamed(tensor.name, kEagle3Renames) : renamed(tensor.name, kEagleRenames),
        tensor);
  }
  QUIRE_ASSIGN_OR_RETURN(head.config, decoder_config(decoder_part(object), target));
  Status status;
  const ConfigReader reader(object, "config.json", {}, status);
  check_kind(reader);
  const int64_t theirs_size = target.config.hidden_size;
  if (const int64_t size = reader.integer("target_hidden_size", {1, 1 << 20}, theirs_size);
      size != theirs_size) {
    reader.fail(fmt::format("target_hidden_size: expected {}, the served model's, got {}",
                            theirs_size, size));
  }
  if (!status.ok()) return status;
  QUIRE_RETURN_IF_ERROR(read_proposal_methods(object, head));
  QUIRE_RETURN_IF_ERROR(is_eagle3 ? read_eagle3(reader, target, tensors, head)
                                  : read_eagle(reader, target, tensors, head));
  QUIRE_RETURN_IF_ERROR(borrow(target, theirs, tensors));
  QUIRE_ASSIGN_OR_RETURN(head.source, std::move(tensors).finish());
  return {};
}

// The MTP layers of DeepSeek-V3 and GLM-4.5 are one more layer with additional tensors.
constexpr Rename kNextnRenames[] = {
    {"enorm.", "embedding_norm."},
    {"hnorm.", "hidden_norm."},
    {"eh_proj.", "fc."},
    {"shared_head.norm.", "norm."},
    {"shared_head.head.", "lm_head."},
    {"embed_tokens.", "embed_tokens."},
    {"", "layers.0."},
};
// The MTP layers of Qwen3-Next.
constexpr Rename kQwenRenames[] = {{"pre_fc_norm_embedding.", "embedding_norm."},
                                   {"pre_fc_norm_hidden.", "hidden_norm."}};

Status read_mtp(const DraftTarget& target, DraftHead& head) {
  QUIRE_ASSIGN_OR_RETURN(const TensorSource theirs, TensorSource::open(*target.files));
  head.config = target.config;
  const std::string trunk(find_prefix(target.config.names, theirs).trunk);
  const std::string nextn = fmt::format("{}layers.{}.", trunk, target.config.num_hidden_layers);
  const std::string qwen = "mtp.";
  const bool is_qwen = theirs.find(qwen + "fc.weight") != nullptr;
  if (!is_qwen && theirs.find(nextn + "eh_proj.weight") == nullptr) {
    return not_found(
        "expected layers that predict tokens further ahead, as {}eh_proj.weight or mtp.fc.weight, "
        "got none",
        nextn);
  }
  const std::string& prefix = is_qwen ? qwen : nextn;
  Tensors tensors;
  for (const RawTensor& tensor : theirs.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(tensor.name).substr(prefix.size());
    tensors.add(is_qwen ? renamed(rest, kQwenRenames) : renamed(rest, kNextnRenames), tensor);
  }
  ModelConfig& config = head.config;
  config.tie_word_embeddings = false;
  config.names = names_of(*config.family);
  config.draft_input = {
      .hidden_size = config.hidden_size, .feeds_normed = is_qwen, .ignores_first = !is_qwen};
  for (size_t layer = 0; layer < config.layer_parts.size(); ++layer) {
    if (config.layer_parts[layer].attention && !config.layer_parts[layer].state)
      config.draft_layer = static_cast<int64_t>(layer);
  }
  config.index_layers = {};  // no earlier layer has an indexer, so this one must
  QUIRE_RETURN_IF_ERROR(borrow(target, theirs, tensors));
  QUIRE_ASSIGN_OR_RETURN(head.source, std::move(tensors).finish());
  return {};
}

}  // namespace

Result<std::shared_ptr<const DraftHead>> read_draft_head(DraftHeadKind kind,
                                                         std::shared_ptr<const ModelFiles> files,
                                                         const DraftTarget& target) {
  auto head = std::make_shared<DraftHead>();
  const std::string source = files->source();
  if (target.config.format == CheckpointFormat::kGguf) {
    return unimplemented(
        "expected a served model in safetensors, whose embeddings the drafter shares, got GGUF");
  }
  head->files = {std::move(files), target.files};
  Status status =
      kind == DraftHeadKind::kMtp ? read_mtp(target, *head) : read_eagles(kind, target, *head);
  if (!status.ok()) return status.with_context(source);
  return std::shared_ptr<const DraftHead>(std::move(head));
}

}  // namespace quire
