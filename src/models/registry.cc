#include <array>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "models/family.h"

namespace quire {
namespace {

constexpr const Family& (*kFamilies[])() = {
    llama_family,         mistral_family,      ministral3_family,
    qwen2_family,         qwen3_family,        phi3_family,
    gemma2_family,        gemma3_family,       gpt2_family,
    granite_family,       minicpm_family,      smollm3_family,
    seed_oss_family,      hunyuan_family,      arcee_family,
    ernie_family,         olmo2_family,        olmo3_family,
    exaone4_family,       glm_family,          glm4_family,
    cohere_family,        cohere2_family,      stablelm_family,
    phi_family,           starcoder2_family,   gpt_neox_family,
    nemotron_family,      apertus_family,      opt_family,
    falcon_family,        bloom_family,        mpt_family,
    qwen2_moe_family,     qwen3_moe_family,    mixtral_family,
    minimax_m2_family,    phimoe_family,       glm4_moe_family,
    ernie_moe_family,     gpt_oss_family,      granite_moe_family,
    olmoe_family,         deepseek_v2_family,  deepseek_v3_family,
    glm4_moe_lite_family, minicpm3_family,     bert_family,
    roberta_family,       nomic_bert_family,   distilbert_family,
    lfm2_family,          lfm2_moe_family,     qwen3_next_family,
    qwen3_5_family,       qwen3_5_moe_family,  granite_hybrid_family,
    bamba_family,         falcon_h1_family,    nemotron_h_family,
    mamba_family,         falcon_mamba_family, mamba2_family,
    jamba_family,         kimi_linear_family,  qwen2_vl_family,
    qwen3_vl_family,      gemma_family,        vaultgemma_family,
    gemma4_family,        helium_family,       internlm3_family,
    cwm_family,           jais2_family,        dots1_family,
    solar_open_family,    exaone_moe_family,   hy_v3_family,
    afmoe_family,         hunyuan_moe_family,  qwen3_vl_moe_family,
    llama4_family,        baichuan_family,     modernbert_family,
    mpnet_family,         gemma3n_family,      zamba2_family,
    whisper_family,       t5_family,           bart_family,
    gte_family,           jina_v3_family,      gptj_family,
    codegen_family,       gpt_bigcode_family,  gpt_neo_family,
    openai_gpt_family,    biogpt_family,       olmo_family,
    flex_olmo_family,     internlm_family,     internlm2_family,
    xverse_family,        orion_family,        qwen_family,
    chatglm_family,       exaone_family,       hyperclovax_family,
    granite_swa_family,   nanochat_family,     youtu_family,
    mellum_family,        bailing_moe_family,  bailing_moe_v2_family,
    deepseek_family,      deepseek_v32_family, glm_moe_dsa_family,
    deci_family,          openelm_family,      cohere2_moe_family,
    mllama_family,        jina_bert_family,    bitnet_family,
    dbrx_family,          aria_text_family,    flint_family,
    axk1_family,          persimmon_family,    granitemoe_swa_family,
    gemma4_unified_family};

// Families that exist only as GGUF files; folders of these models are read as a family above.
constexpr const Family& (*kGgufFamilies[])() = {gemma_embed_family};

}  // namespace

std::span<const Family* const> all_families() {
  static const auto families = [] {
    std::array<const Family*, std::size(kFamilies) + std::size(kGgufFamilies)> all = {};
    size_t count = 0;
    for (const auto& family : kFamilies) all[count++] = &family();
    for (const auto& family : kGgufFamilies) all[count++] = &family();
    return all;
  }();
  return families;
}

const Family* find_family(std::string_view model_type) {
  for (const Family* family : all_families()) {
    for (const std::string_view known : family->model_types) {
      if (known == model_type) return family;
    }
  }
  return nullptr;
}

// Several families, and text encoders of some of them, may share an architecture. Returns the one
// that claims the file, otherwise the first (files of Mistral, for example, say llama).
const Family* find_gguf_family(const GgufFile& file, std::string_view architecture) {
  const Family* found = nullptr;
  for (const Family* family : all_families()) {
    if (family->text_encoder != nullptr && !architecture.empty() &&
        family->text_encoder().gguf_architecture == architecture)
      return &family->text_encoder();
    const bool is_named =
        family->gguf_architecture == architecture || family->gguf_moe_architecture == architecture;
    if (architecture.empty() || !is_named) continue;
    if (family->owns_gguf != nullptr && family->owns_gguf(file)) return family;
    if (found == nullptr && family->owns_gguf == nullptr) found = family;
  }
  return found;
}

std::string known_model_types() {
  std::string list;
  for (const Family* family : all_families()) {
    for (const std::string_view known : family->model_types)
      list.append(list.empty() ? "" : ", ").append(known);
  }
  return list;
}

std::string known_gguf_architectures() {
  std::string list;
  std::set<std::string_view> listed;
  for (const Family* family : all_families()) {
    const std::string_view of_encoder =
        family->text_encoder == nullptr ? "" : family->text_encoder().gguf_architecture;
    for (const std::string_view name :
         {family->gguf_architecture, family->gguf_moe_architecture, of_encoder}) {
      if (name.empty() || !listed.insert(name).second) continue;
      list.append(list.empty() ? "" : ", ").append(name);
    }
  }
  return list;
}

}  // namespace quire
