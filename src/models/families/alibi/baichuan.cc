// Baichuan: Llama's layers with queries, keys and values in one tensor. The models with 13 billion
// parameters have ALiBi instead of rope; in the second generation, the rows of the head have length
// 1.
#include "models/config_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kBaichuanTypes[] = {"baichuan"};

constexpr NameMapEntry kBaichuanEntries[] = {{TensorRole::kQkv, "layers.{}.self_attn.W_pack"}};
constexpr NameMap kBaichuanNames{kBaichuanEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                 &kLlamaNames};
constexpr NameMapEntry kUnitHeadEntries[] = {
    {.role = TensorRole::kLmHead, .pattern = "lm_head", .unit_rows = true}};
constexpr NameMap kUnitHeadNames{kUnitHeadEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                 &kBaichuanNames};

void read_baichuan(const ConfigReader& reader, ModelConfig& config) {
  // No key says which kind of positions a model has. The models with 13 billion parameters have 40
  // layers, and their configurations use another key for the sequence length.
  constexpr int64_t kLayersOf13b = 40;
  if (config.num_hidden_layers == kLayersOf13b || !reader.has("max_position_embeddings"))
    config.positions = PositionKind::kAlibi;
  config.max_position_embeddings =
      reader.integer("model_max_length", {1, kMaxPositions}, config.max_position_embeddings);
  // No key says which kind of head a model has, either. The second generation has a vocabulary of
  // its own; GGUF files store the rows normalized.
  constexpr int64_t kSecondVocab = 125696;
  if (config.vocab_size == kSecondVocab || reader.has("z_loss_weight"))
    config.names = kUnitHeadNames;
}

}  // namespace

const Family& baichuan_family() {
  static constexpr Family family{
      .name = "baichuan",
      .model_types = kBaichuanTypes,
      .gguf_architecture = "baichuan",
      .defaults = {.vocab_size = 125696,
                   .hidden_size = 4096,
                   .intermediate_size = 11008,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 32,
                   .max_position_embeddings = 4096},
      .read_more = read_baichuan,
      .hf_names = kBaichuanNames,
      .gguf_names = kGgufNames,
      .gguf_rope_style = RopeStyle::kInterleaved,  // its q and k rows are stored permuted
  };
  return family;
}

}  // namespace quire
