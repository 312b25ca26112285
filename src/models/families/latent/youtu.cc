// Youtu-LLM: DeepSeek-V3's attention with an MLP in every layer.
#include "models/config_reader.h"
#include "models/families/latent/latent_fields.h"
#include "models/family.h"
#include "models/model_config.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

constexpr std::string_view kYoutuTypes[] = {"youtu"};

void read_youtu(const ConfigReader& reader, ModelConfig& config) {
  read_latent(reader, kDeepseekLatent, config);
  if (!reader.boolean("rope_interleave", true))
    reader.fail("rope_interleave: expected true, got false");
}

// GGUF files of models without experts call themselves deepseek2, too.
bool has_no_experts(const GgufFile& file) {
  const GgufValue* count = file.find("deepseek2.expert_count");
  return count == nullptr || count->as_int().value_or(0) == 0;
}

}  // namespace

const Family& youtu_family() {
  static constexpr Family family{
      .name = "youtu",
      .model_types = kYoutuTypes,
      .gguf_architecture = "deepseek2",
      .defaults = {.vocab_size = 128256,
                   .hidden_size = 2048,
                   .intermediate_size = 6144,
                   .num_hidden_layers = 32,
                   .num_attention_heads = 16,
                   .head_dim = 64,
                   .max_position_embeddings = 131072,
                   .tie_word_embeddings = true},
      .rope_style = RopeStyle::kInterleaved,
      .qkv_bias = BiasRule::kConfig,
      .o_bias = BiasRule::kConfig,
      .mlp_bias = BiasRule::kConfig,
      .read_more = read_youtu,
      .hf_names = kLatentNames,
      .gguf_names = kGgufLatentNames,
      .gguf_rope_style = RopeStyle::kInterleaved,
      .owns_gguf = has_no_experts,
  };
  return family;
}

}  // namespace quire
