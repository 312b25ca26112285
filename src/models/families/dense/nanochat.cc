// nanochat: norms without weights, also of the embedding and of rotated queries and keys; the
// rotation goes backwards; an MLP without a gate.
#include "models/config_reader.h"
#include "models/family.h"
#include "models/model_config.h"
#include "models/standard_names.h"

namespace quire {
namespace {

constexpr std::string_view kNanochatTypes[] = {"nanochat"};
constexpr NameMapEntry kNanochatEntries[] = {
    {.role = TensorRole::kEmbeddingNorm, .pattern = "", .constant = 1.0f},
    {.role = TensorRole::kInputNorm, .pattern = "", .constant = 1.0f},
    {.role = TensorRole::kPreMlpNorm, .pattern = "", .constant = 1.0f},
    {.role = TensorRole::kFinalNorm, .pattern = "", .constant = 1.0f},
    {TensorRole::kUp, "layers.{}.mlp.fc1"},
    {TensorRole::kDown, "layers.{}.mlp.fc2"},
};
constexpr NameMap kNanochatNames{kNanochatEntries, kLlamaPrefixes, kIgnoredTensors, 0.0f,
                                 &kLlamaNames};

void read_nanochat(const ConfigReader& reader, ModelConfig& config) {
  config.plain_qk_norm = true;
  config.final_logit_softcapping = reader.positive_or_null("final_logit_softcapping", 15.0);
}

}  // namespace

const Family& nanochat_family() {
  static constexpr Family family{
      .name = "nanochat",
      .model_types = kNanochatTypes,
      .defaults = {.vocab_size = 50304,
                   .hidden_size = 768,
                   .intermediate_size = 8192,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 6,
                   .max_position_embeddings = 2048,
                   .activation = "relu2"},
      .rotates_backwards = true,
      .block = {.embedding_norm = true},
      .qk_norm = QkNorm::kHead,
      .qk_norm_after_rope = true,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .gated_mlp = false,
      .read_more = read_nanochat,
      .hf_names = kNanochatNames,
  };
  return family;
}

}  // namespace quire
