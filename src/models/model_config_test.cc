#include "models/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "models/shapes.h"
#include "tests/support/temp_folder.h"

namespace quire {
namespace {

constexpr std::string_view kLlama =
    R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4)";

// Returns kLlama with more keys.
std::string llama_with(std::string_view more) { return fmt::format("{}, {}}}", kLlama, more); }

std::string error_of(std::string_view text) {
  const auto config = parse_model_config(text);
  if (!config.ok()) return config.status().message();
  const auto spec = make_decoder_spec(*config, config->max_model_len(), DType::kF32);
  return spec.ok() ? "" : spec.status().message();
}

TEST(ModelConfig, ReadsLlama) {
  const auto config =
      parse_model_config(llama_with(R"("rope_theta": 5e5, "max_position_embeddings": 256)"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->family->name, "llama");
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->rope.theta, 5e5);
  EXPECT_EQ(config->max_model_len(), 256);
  EXPECT_FALSE(config->tie_word_embeddings);
}

TEST(ModelConfig, NewRopeParametersEqualOldKeys) {
  const auto old_style = parse_model_config(llama_with(
      R"("rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
         "high_freq_factor": 4, "original_max_position_embeddings": 64})"));
  const auto new_style = parse_model_config(llama_with(
      R"("rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
         "high_freq_factor": 4, "original_max_position_embeddings": 64})"));
  ASSERT_TRUE(old_style.ok() && new_style.ok());
  EXPECT_EQ(make_rope(old_style->rope, 8, 128)->inv_freq,
            make_rope(new_style->rope, 8, 128)->inv_freq);
}

TEST(ModelConfig, Gemma3FillsWhatItsConfigsLeaveOut) {
  const auto config = parse_model_config(
      R"({"model_type": "gemma3", "vision_config": {}, "text_config": {"model_type": "gemma3_text",
          "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
          "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->vocab_size, 262208);
  EXPECT_EQ(config->head_dim, 256);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->layer_windows[0], 1024);
  EXPECT_EQ(config->layer_windows[5], 0);
  EXPECT_EQ(config->rope.theta, 1e6);
  EXPECT_EQ(config->rope.type, RopeType::kLinear);
  EXPECT_EQ(config->local_rope.theta, 1e4);
  EXPECT_EQ(config->local_rope.type, RopeType::kDefault);
  EXPECT_EQ(config->max_model_len(), 131072);
}

TEST(ModelConfig, Gemma2CapsCanBeSwitchedOffByNull) {
  constexpr std::string_view kBase =
      R"({"model_type": "gemma2", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
          "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "hidden_act": "gelu",
          "hidden_activation": "gelu_pytorch_tanh")";
  const auto on = parse_model_config(fmt::format("{}}}", kBase));
  const auto off = parse_model_config(fmt::format("{}, \"attn_logit_softcapping\": null}}", kBase));
  ASSERT_TRUE(on.ok() && off.ok()) << on.status().message();
  EXPECT_EQ(on->attn_logit_softcapping, 50.0);
  EXPECT_FALSE(off->attn_logit_softcapping.has_value());
  EXPECT_EQ(on->activation, Activation::kGeluTanh);
}

TEST(ModelConfig, QwenWindowsStartWhereConfigured) {
  constexpr std::string_view kBase =
      R"({"model_type": "qwen2", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
          "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 16,
          "max_window_layers": 3)";
  const auto off = parse_model_config(fmt::format("{}}}", kBase));
  const auto on = parse_model_config(fmt::format("{}, \"use_sliding_window\": true}}", kBase));
  ASSERT_TRUE(on.ok() && off.ok());
  EXPECT_EQ(off->layer_windows, (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(on->layer_windows, (std::vector<int32_t>{0, 0, 0, 16}));
}

TEST(ModelConfig, FieldsLeftOutAreTheFamilysOwn) {
  const auto llama = parse_model_config(R"({"model_type": "llava", "text_config": {
      "model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096}})");
  ASSERT_TRUE(llama.ok()) << llama.status().message();
  EXPECT_EQ(llama->hidden_size, 4096);
  EXPECT_EQ(llama->intermediate_size, 11008);
  EXPECT_EQ(llama->num_key_value_heads, 32);
  const auto gemma2 = parse_model_config(R"({"model_type": "gemma2"})");
  ASSERT_TRUE(gemma2.ok()) << gemma2.status().message();
  EXPECT_EQ(gemma2->num_key_value_heads, 4);
  const auto gpt2 = parse_model_config(R"({"model_type": "gpt2"})");
  ASSERT_TRUE(gpt2.ok()) << gpt2.status().message();
  EXPECT_EQ(gpt2->intermediate_size, 3072);
}

TEST(ModelConfig, LayerTypesOfMistralAreFollowed) {
  const auto config = parse_model_config(R"({"model_type": "mistral", "num_hidden_layers": 2,
      "sliding_window": 16, "layer_types": ["full_attention", "sliding_attention"]})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->layer_windows, (std::vector<int32_t>{0, 16}));
}

TEST(ModelConfig, AddedRopeScalingGoesBeforeRopeParameters) {
  const auto config = parse_model_config(llama_with(
      R"("rope_theta": 5e5, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0},
                    "rope_scaling": {"type": "linear", "factor": 2.0})"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->rope.type, RopeType::kLinear);
  EXPECT_EQ(config->rope.theta, 5e5);
}

TEST(ModelConfig, ActivationsGoByTheNamesOfTransformers) {
  const std::pair<const char*, Activation> names[] = {{"silu", Activation::kSilu},
                                                      {"gelu", Activation::kGeluErf},
                                                      {"gelu_new", Activation::kGeluTanh},
                                                      {"gelu_fast", Activation::kGeluTanh},
                                                      {"gelu_accurate", Activation::kGeluTanh},
                                                      {"quick_gelu", Activation::kQuickGelu},
                                                      {"relu", Activation::kRelu},
                                                      {"relu2", Activation::kRelu2},
                                                      {"tanh", Activation::kTanh}};
  for (const auto& [name, activation] : names) {
    const auto config = parse_model_config(llama_with(fmt::format(R"("hidden_act": "{}")", name)));
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->activation, activation) << name;
  }
}

TEST(ModelConfig, InverseLayerScalesDivideByTheLayersNumber) {
  const auto config = parse_model_config(
      R"({"model_type": "gpt2", "n_layer": 2, "scale_attn_by_inverse_layer_idx": true})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec->layers[1].attention.scale, 0.5f * spec->layers[0].attention.scale);
}

struct BadConfig {
  std::string text;
  std::string expected;  // part of the message
};

TEST(ModelConfig, SaysWhatIsWrong) {
  const BadConfig cases[] = {
      {"[]", "expected an object"},
      {"{\"model_type\": ", "not valid JSON"},
      {R"({"model_type": "rwkv7"})", "expected one of llama, iquestcoder, aquila, mistral"},
      {R"({})", "model_type"},
      {llama_with(R"("rope_scaling": {"type": "linear"})"),
       "factor: expected a positive number, got nothing"},
      {R"({"model_type": "llama", "vocab_size": -1})",
       "vocab_size: expected an integer in [1, 16777216], got -1"},
      {R"({"model_type": "llama", "vocab_size": 9e18})", "vocab_size"},
      {R"({"model_type": "llama", "vocab_size": "many"})", "got \"many\""},
      {llama_with(R"("head_dim": 7)"), "head_dim: expected an even number"},
      {llama_with(R"("head_dim": 578)"), "head_dim"},
      {llama_with(R"("rms_norm_eps": 0)"), "rms_norm_eps: expected a positive number"},
      {llama_with(R"("torch_dtype": "zzz")"), "torch_dtype: expected bfloat16"},
      {llama_with(R"("dtype": "torch.zzz")"), "dtype: expected bfloat16"},
      {llama_with(R"("hidden_act": "mish")"), "hidden_act: expected one of silu"},
      {llama_with(R"("tie_word_embeddings": 1)"), "tie_word_embeddings: expected true or false"},
      {llama_with(R"("rope_scaling": {"rope_type": "spiral"})"),
       "rope_type: expected one of default"},
      {llama_with(R"("rope_scaling": {"rope_type": "linear"})"),
       "factor: expected a positive number, got nothing"},
      {llama_with(R"("rope_scaling": [1])"), "rope_scaling: expected an object"},
      {llama_with(R"("rope_theta": 0.5)"), "rope_theta"},
      {llama_with(R"("partial_rotary_factor": 0.01)"), "rotary dimension"},
      {llama_with(R"("quantization_config": {})"), "quantization_config"},
      {R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 65, "intermediate_size": 128,
           "num_hidden_layers": 2, "num_attention_heads": 8})",
       "hidden_size: expected a multiple"},
      {R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 3})",
       "num_attention_heads: expected a multiple of num_key_value_heads 3"},
      {R"({"model_type": "qwen3", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
           "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "use_sliding_window": true,
           "layer_types": ["full_attention"]})",
       "layer_types: expected num_hidden_layers = 2"},
      {llama_with(R"("hidden_act": "xielu")"), "hidden_act: expected one of silu"},
      {R"({"model_type": "smollm3", "num_hidden_layers": 2, "no_rope_layers": [1, 1, 0]})",
       "no_rope_layers: expected num_hidden_layers = 2 entries, got 3"},
      {R"({"model_type": "exaone4", "num_hidden_layers": 2, "layer_types": ["full_attention"]})",
       "layer_types: expected num_hidden_layers = 2 entries, got 1"},
      {R"({"model_type": "cohere2", "num_hidden_layers": 1, "layer_types": ["mamba"]})",
       "layer_types: expected sliding_attention or full_attention, got mamba"},
      {R"({"model_type": "opt", "do_layer_norm_before": false})",
       "do_layer_norm_before: expected true, got false"},
      {R"({"model_type": "opt", "word_embed_proj_dim": 512})",
       "word_embed_proj_dim: expected hidden_size 768"},
      {R"({"model_type": "phi", "qk_layernorm": true})", "qk_layernorm: expected false"},
      {R"({"model_type": "falcon", "new_decoder_architecture": true, "num_kv_heads": 9})",
       "num_kv_heads: expected a divisor of num_attention_heads 71, got 9"},
      {R"({"model_type": "mpt", "attn_config": {"clip_qkv": -8}})",
       "attn_config: clip_qkv: expected a positive number"},
      {R"({"model_type": "llama", "clip_qkv": 8})", "clip_qkv: expected null"},
      {R"({"model_type": "dbrx", "ffn_config": {"moe_normalize_expert_weights": 2}})",
       "moe_normalize_expert_weights: expected null or 1, got 2"},
      {R"({"model_type": "dbrx", "ffn_config": {"ffn_act_fn": {"name": "gelu"}}})",
       "ffn_act_fn: expected silu, got gelu"},
      {R"({"model_type": "dbrx", "n_heads": 16, "attn_config": {"kv_n_heads": 5}})",
       "num_attention_heads: expected a multiple of num_key_value_heads 5, got 16"},
      {R"({"model_type": "bitnet", "weight_bits": 1})", "weight_bits: expected none"},
      {R"({"model_type": "aria_text", "hidden_act": "gelu"})",
       "hidden_act: expected silu, got gelu"},
      {R"({"model_type": "granitemoe_swa", "num_hidden_layers": 2, "layer_rope_theta": [0]})",
       "layer_rope_theta: expected num_hidden_layers = 2 entries, got 1"},
      {R"({"model_type": "axk1", "num_hidden_layers": 2, "mlp_layer_types": ["dense"]})",
       "mlp_layer_types: expected num_hidden_layers = 2 entries, got 1"},
      {R"({"model_type": "gptj", "rotary_dim": null})", "rotary_dim: expected a number"},
      {R"({"model_type": "codegen", "rotary_dim": 64, "n_head": 6, "n_embd": 768})",
       "num_attention_heads: expected a multiple of 4, got 6"},
      {R"({"model_type": "gpt_neo", "num_layers": 3, "attention_layers": ["local"]})",
       "attention_layers: expected num_layers = 3 entries, got 1"},
      {R"({"model_type": "gpt_neo", "attention_types": [[["global"], 24]]})",
       "attention_layers: expected a list"},
      {R"({"model_type": "chatglm", "position_encoding_2d": true})",
       "position_encoding_2d: expected false"},
      {R"({"model_type": "chatglm", "add_bias_linear": true})", "add_bias_linear: expected false"},
      {R"({"model_type": "qwen", "no_bias": false})", "no_bias: expected true"},
      {R"({"model_type": "internlm", "rotary": {"base": 20000}})",
       "rotary: base: expected 10000, got 20000"},
      {R"({"model_type": "hyperclovax", "residual_multiplier": 0.5})",
       "residual_multiplier: expected 1 beside use_post_norm"},
      {R"({"model_type": "nemotron-nas", "num_hidden_layers": 2, "block_configs": [{}]})",
       "block_configs: expected num_hidden_layers = 2 entries, got 1"},
      {R"({"model_type": "nemotron-nas", "num_hidden_layers": 1, "block_configs": [7]})",
       "block_configs: expected a list of objects, got 7"},
      {R"({"model_type": "nemotron-nas", "num_hidden_layers": 1, "block_configs": [
           {"attention": {"n_heads_in_group": 8, "replace_with_linear": true}, "ffn": {}}]})",
       "block_configs: 0: attention: replace_with_linear: expected false"},
      {R"({"model_type": "nemotron-nas", "num_hidden_layers": 1, "num_attention_heads": 8,
           "head_dim": 64, "block_configs": [{"attention": {"n_heads_in_group": 3}, "ffn": {"ffn_mult": 1}}]})",
       "n_heads_in_group: expected a divisor of num_attention_heads 8, got 3"},
      {R"({"model_type": "openelm", "num_transformer_layers": 2, "num_query_heads": [12],
           "num_kv_heads": [3, 3], "ffn_multipliers": [1, 2]})",
       "num_query_heads: expected num_hidden_layers = 2 entries, got 1"},
      {R"({"model_type": "bailing_moe", "vocab_size": 8, "num_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 8, "num_shared_experts": 1, "multi_gate": true})",
       "multi_gate: expected false"},
      {R"({"model_type": "cohere2_moe", "num_shared_experts": 1})",
       "shared_expert_combination_strategy: expected sum, got average"},
      {R"({"model_type": "bloom", "apply_residual_connection_post_layernorm": true})",
       "apply_residual_connection_post_layernorm: expected false"},
      {R"({"model_type": "granite", "residual_multiplier": 0})",
       "residual_multiplier: expected a positive number"},
  };
  for (const BadConfig& bad : cases) {
    const std::string message = error_of(bad.text);
    EXPECT_NE(message.find(bad.expected), std::string::npos) << bad.text << "\n gives: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

// The slopes of the paper for 8 heads; for 6 those of 4, then every second of those of 8.
TEST(ModelConfig, AlibiSlopesAreThoseOfThePaper) {
  const auto slopes = [](std::string_view heads) {
    const auto config = parse_model_config(fmt::format(
        R"({{"model_type": "bloom", "hidden_size": 96, "n_head": {}, "n_layer": 1}})", heads));
    return make_decoder_spec(*config, 64, DType::kF32).value().alibi_slopes;
  };
  std::vector<float> expected;
  for (int i = 1; i <= 8; ++i) expected.push_back(std::exp2(static_cast<float>(-i)));
  EXPECT_EQ(slopes("8"), expected);
  EXPECT_EQ(slopes("6"),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
}

// x' = x / r is the residual stream: r is folded into the embedding and the norms' epsilon.
TEST(ModelConfig, ResidualMultipliersCostNothing) {
  const auto config = parse_model_config(
      R"({"model_type": "granite", "residual_multiplier": 0.25, "embedding_multiplier": 12,
          "attention_multiplier": 0.015625, "logits_scaling": 8, "rms_norm_eps": 1e-5})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const DecoderSpec spec = make_decoder_spec(*config, 64, DType::kF32).value();
  EXPECT_EQ(spec.embedding_scale, 48.0f);
  EXPECT_FLOAT_EQ(spec.norm_eps, 16e-5f);
  EXPECT_EQ(spec.layers[0].attention.scale, 0.015625f);
  EXPECT_EQ(spec.logit_scale, 0.125f);
}

TEST(ModelShape, KnownOnesParse) {
  for (const char* name : {"smollm2-135m", "llama-3.2-1b", "llama-3.1-8b", "qwen2.5-0.5b",
                           "qwen3-0.6b", "qwen3-8b", "gemma-3-1b"}) {
    const auto config = model_shape(name);
    EXPECT_TRUE(config.ok()) << config.status().message();
  }
}

TEST(ModelShape, OfAFile) {
  const test::TempFolder folder;
  const auto shape_of = [&](const std::string& text) {
    std::ofstream(folder / "shape.json") << text;
    return model_shape((folder / "shape.json").string());
  };
  const std::string fields = R"({"model_type": "llama", "vocab_size": 96, "hidden_size": 64,
      "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 256)";
  const auto plain = shape_of(fields + "}");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(plain->num_hidden_layers, 3);
  const auto quantized = shape_of(fields + R"(, "quantization_config": {"quant_method": "fp8"}})");
  ASSERT_TRUE(quantized.ok()) << quantized.status().message();
  EXPECT_EQ(quantized->quantization.method(), QuantMethod::kNone);
  EXPECT_EQ(shape_of("{").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(model_shape((folder / "no-such-shape.json").string()).status().code(),
            StatusCode::kNotFound);
  EXPECT_NE(model_shape("llama").status().message().find("path of a config.json"),
            std::string::npos);
}

// Mixtures of experts: what is read, and one clear error for what is not supported.
constexpr std::string_view kMoe =
    R"({"model_type": "qwen3_moe", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8)";

std::string moe_with(std::string_view more) { return fmt::format("{}, {}}}", kMoe, more); }

TEST(ModelConfig, ReadsExperts) {
  const auto config = parse_model_config(
      moe_with(R"("num_experts": 16, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
                  "norm_topk_prob": true, "decoder_sparse_step": 2, "mlp_only_layers": [3])"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  const ExpertsSpec& experts = config->experts.spec;
  EXPECT_EQ(experts.router.num_experts, 16);
  EXPECT_EQ(experts.router.experts_per_token, 3);
  EXPECT_EQ(experts.router.weight, RouterWeight::kNormalized);
  EXPECT_EQ(experts.intermediate_size, 24);
  EXPECT_EQ(config->experts.layers, (std::vector<bool>{false, true, false, false}));
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_FALSE(spec->layers[0].ffn.experts.any());
  EXPECT_EQ(spec->layers[0].ffn.intermediate_size, 128);
  EXPECT_TRUE(spec->layers[1].ffn.experts.any());
  EXPECT_EQ(spec->layers[1].ffn.intermediate_size, 0);
}

TEST(ModelConfig, RefusesExpertsThatCannotBe) {
  const auto expect_error = [](std::string_view more, std::string_view part) {
    const std::string error = error_of(moe_with(more));
    EXPECT_NE(error.find(part), std::string::npos) << more << ": " << error;
  };
  expect_error(R"("num_experts": 0)", "num_experts");
  expect_error(R"("num_experts": 100000)", "num_experts");
  expect_error(R"("num_experts": 4, "num_experts_per_tok": 5)", "num_experts_per_tok");
  expect_error(R"("num_experts": 4, "num_experts_per_tok": 0)", "num_experts_per_tok");
  expect_error(R"("moe_intermediate_size": 0)", "moe_intermediate_size");
  expect_error(R"("decoder_sparse_step": 0)", "decoder_sparse_step");
  expect_error(R"("mlp_only_layers": [4])", "mlp_only_layers");
  expect_error(R"("mlp_only_layers": [0.5])", "mlp_only_layers");
  expect_error(R"("num_experts": 4096, "moe_intermediate_size": 1000000, "hidden_size": 4096)",
               "2^40");
  const auto glm = [](std::string_view more) {
    return error_of(fmt::format(
        R"({{"model_type": "glm4_moe", "num_hidden_layers": 2, "head_dim": 128, "n_routed_experts": 8,
             "num_experts_per_tok": 4, {}}})",
        more));
  };
  EXPECT_EQ(glm(R"("n_group": 4, "topk_group": 2)"), "");
  EXPECT_NE(glm(R"("n_group": 3)").find("n_group"), std::string::npos);
  EXPECT_NE(glm(R"("n_group": 4, "topk_group": 5)").find("topk_group"), std::string::npos);
  EXPECT_NE(glm(R"("n_group": 8, "topk_group": 2)").find("topk_group"), std::string::npos);
}

TEST(ModelConfig, ReadsStates) {
  const auto config = parse_model_config(
      R"({"model_type": "mamba2", "num_hidden_layers": 2, "hidden_size": 64, "num_heads": 8,
          "head_dim": 16, "n_groups": 2, "state_size": 32, "time_step_limit": [0.0, Infinity]})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const LayerSpec& layer = spec->layers[1];
  EXPECT_FALSE(layer.attention.any() || layer.ffn.any());
  EXPECT_EQ(layer.state.in_rows(), 128 + (128 + 2 * 2 * 32) + 8);
  EXPECT_EQ(layer.state.state_floats(), 3 * (128 + 128) + 8 * 16 * 32);
  EXPECT_EQ(layer.state.min_step, 0.0f);
}

TEST(ModelConfig, RefusesStatesThatCannotBe) {
  const auto expect_error = [](std::string_view type, std::string_view more,
                               std::string_view part) {
    const std::string error =
        error_of(fmt::format(R"({{"model_type": "{}", "num_hidden_layers": 3, {}}})", type, more));
    EXPECT_NE(error.find(part), std::string::npos) << more << ": " << error;
  };
  expect_error("lfm2", R"("layer_types": ["conv", "conv"])", "expected num_hidden_layers = 3");
  expect_error("lfm2", R"("layer_types": ["conv", "conv", "mamba"])", "expected one of conv");
  expect_error("lfm2", R"("conv_L_cache": 0)", "conv_L_cache");
  expect_error("lfm2", R"("conv_L_cache": 17)", "conv_L_cache");
  expect_error("lfm2", R"("full_attn_idxs": [3])", "full_attn_idxs");
  expect_error("qwen3_next", R"("linear_num_key_heads": 3)", "linear_num_value_heads");
  expect_error("qwen3_next", R"("linear_key_head_dim": 512)", "linear_key_head_dim");
  expect_error("mamba", R"("conv_kernel": 0)", "conv_kernel");
  expect_error("mamba", R"("state_size": 0)", "state_size");
  expect_error("mamba2", R"("num_heads": 6, "n_groups": 4)", "num_heads");
  expect_error("bamba", R"("attn_layer_indices": [-1])", "attn_layer_indices");
  expect_error("falcon_h1", R"("ssm_multipliers": [1.0])", "ssm_multipliers");
  expect_error("nemotron_h", R"("hybrid_override_pattern": "M*")", "hybrid_override_pattern");
  expect_error("nemotron_h", R"("hybrid_override_pattern": "M*X")", "hybrid_override_pattern");
  expect_error("jamba", R"("attn_layer_offset": 8)", "attn_layer_offset");
}

TEST(ModelConfig, ReadsLatents) {
  const auto config = parse_model_config(
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
          "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
          "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                           "original_max_position_embeddings": 4096}})");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const AttentionSpec& attention = spec->layers[1].attention;
  EXPECT_EQ(attention.num_kv_heads, 1);
  EXPECT_EQ(attention.head_dim, 576);
  EXPECT_EQ(attention.latent.query_rank, 1536);
  EXPECT_EQ(attention.qkv_rows(), 1536 + 576);
  EXPECT_EQ(attention.output_size(), 4 * 128);
  EXPECT_NEAR(attention.scale, 1.8739 / std::sqrt(192.0), 1e-5);
  EXPECT_EQ(spec->ropes[0].rotary_dim, 64);
  EXPECT_DOUBLE_EQ(spec->ropes[0].scale, 1.0);
}

std::string indexed_config(std::string_view more) {
  return fmt::format(
      R"({{"model_type": "glm_moe_dsa", "num_hidden_layers": 4, "n_routed_experts": 8,
           "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "index_topk": 32{}}})",
      more);
}

TEST(ModelConfig, ReadsIndexers) {
  const auto choosing_layers = [](std::string_view more) {
    const auto config = parse_model_config(indexed_config(more));
    EXPECT_TRUE(config.ok()) << config.status().message();
    std::string kinds;
    if (!config.ok()) return kinds;
    const auto spec = make_decoder_spec(*config, 64, DType::kF32);
    for (const LayerSpec& layer : spec->layers) {
      EXPECT_EQ(layer.attention.index.top_k, 32);
      kinds += layer.attention.index.chooses() ? 'F' : 'S';
    }
    EXPECT_EQ(spec->layers[0].attention.index.rope_style, RopeStyle::kInterleaved);
    // No sequence has more tokens than an indexer chooses.
    EXPECT_FALSE(make_decoder_spec(*config, 32, DType::kF32)->has_indexers());
    return kinds;
  };
  EXPECT_EQ(choosing_layers(""), "FFFF");
  EXPECT_EQ(choosing_layers(R"(, "index_topk_freq": 2, "index_skip_topk_offset": 1)"), "FSFS");
  EXPECT_EQ(choosing_layers(R"(, "index_topk_pattern": "FSSFF")"), "FSSF");
  EXPECT_EQ(choosing_layers(R"(, "indexer_types": ["full", "shared", "full", "shared"])"), "FSFS");
}

TEST(ModelConfig, RefusesIndexersThatCannotBe) {
  const auto expect_error = [](std::string_view more, std::string_view part) {
    const std::string error = error_of(indexed_config(more));
    EXPECT_NE(error.find(part), std::string::npos) << more << ": " << error;
  };
  expect_error(R"(, "index_head_dim": 62)", "at least 64, got 62");
  expect_error(R"(, "index_head_dim": 97)", "an even number");
  expect_error(R"(, "index_n_heads": 0)", "index_n_heads");
  expect_error(R"(, "q_lora_rank": null)", "q_lora_rank");
  expect_error(R"(, "indexer_types": ["full"])", "expected 4 kinds");
  expect_error(R"(, "index_topk_pattern": "SFFF")", "the first full");
  expect_error(R"(, "index_topk_pattern": "FXFF")", "full or shared, got X");
}

TEST(ModelConfig, RefusesLatentsThatCannotBe) {
  const auto expect_error = [](std::string_view more, std::string_view part) {
    const std::string error = error_of(fmt::format(
        R"({{"model_type": "deepseek_v2", "num_hidden_layers": 2, "n_routed_experts": 8,
             "num_experts_per_tok": 2, {}}})",
        more));
    EXPECT_NE(error.find(part), std::string::npos) << more << ": " << error;
  };
  expect_error(R"("kv_lora_rank": 0)", "kv_lora_rank");
  expect_error(R"("kv_lora_rank": 100)", "expected a multiple of 16, got 100");
  expect_error(R"("kv_lora_rank": 576)", "at most 576 in all, got 576 + 64");
  expect_error(R"("qk_rope_head_dim": 7)", "even numbers");
  expect_error(R"("qk_nope_head_dim": 0)", "qk_nope_head_dim");
  expect_error(R"("v_head_dim": 100000)", "v_head_dim");
  expect_error(R"("num_attention_heads": 4096)", "num_attention_heads");
  expect_error(R"("moe_layer_freq": 2)", "moe_layer_freq: expected 1");
  expect_error(R"("topk_method": "noaux_tc")", "topk_method");
  expect_error(R"("attention_bias": true, "q_lora_rank": null)", "attention_bias");
}

constexpr std::string_view kGemma4 =
    R"({"model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                        "sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": {"rope_theta": 1e4},
                            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                                               "partial_rotary_factor": 0.25}})";

TEST(ModelConfig, LayersOfGemma4DifferInShape) {
  const auto config = parse_model_config(fmt::format(
      R"({}, "attention_k_eq_v": true, "num_global_key_value_heads": 1, "num_kv_shared_layers": 3,
          "use_double_wide_mlp": true, "hidden_size_per_layer_input": 8}})",
      kGemma4));
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const AttentionSpec& sliding = spec->layers[0].attention;
  const AttentionSpec& full = spec->layers[1].attention;
  EXPECT_EQ(sliding.head_dim, 16);
  EXPECT_EQ(sliding.num_kv_heads, 2);
  EXPECT_EQ(full.head_dim, 32);
  EXPECT_EQ(full.num_kv_heads, 1);
  EXPECT_EQ(full.qkv_rows(), 4 * 32 + 2 * 32);
  EXPECT_EQ(spec->layers[3].attention.kv_layer, 1);
  EXPECT_EQ(spec->layers[4].attention.kv_layer, 2);
  EXPECT_EQ(spec->layers[5].attention.qkv_rows(), 4 * 32);
  EXPECT_EQ(spec->layers[2].ffn.intermediate_size, 128);
  EXPECT_EQ(spec->layers[3].ffn.intermediate_size, 256);
  EXPECT_EQ(spec->layer_inputs.size, 8);
  // 4 of 16 pairs rotate, with the frequencies of the whole head.
  const RopeSpec& rope = spec->ropes[0];
  ASSERT_EQ(rope.inv_freq.size(), 16u);
  EXPECT_NEAR(rope.inv_freq[3], std::pow(1e6, -6.0 / 32), 1e-12);
  EXPECT_EQ(rope.inv_freq[4], 0.0);
  EXPECT_EQ(spec->ropes[1].inv_freq.size(), 8u);
}

TEST(ModelConfig, RefusesLayersThatCannotBe) {
  const auto expect_error = [](std::string_view more, std::string_view part) {
    const std::string error = error_of(fmt::format("{}, {}}}", kGemma4, more));
    EXPECT_NE(error.find(part), std::string::npos) << more << ": " << error;
  };
  expect_error(R"("num_kv_shared_layers": 6)",
               "num_kv_shared_layers: expected an integer in [0, 5]");
  expect_error(R"("num_kv_shared_layers": 5)", "a layer of the kind of layer 1 among the first 1");
  expect_error(R"("attention_k_eq_v": true, "num_global_key_value_heads": 3)",
               "num_global_key_value_heads: expected a divisor");
  expect_error(R"("per_layer_config": {"0": {"head_dim": 8}})", "full layers alone");
  expect_error(R"("per_layer_config": {"1": {"head_dim": 8}, "3": {"head_dim": 10}})",
               "all with the same heads");
  expect_error(R"("per_layer_config": {"1": {"head_dim": 7}})", "expected an even number, got 7");
  expect_error(R"("enable_moe_block": true)", "num_experts: expected at least 1");
  expect_error(R"("use_bidirectional_attention": "all")", "use_bidirectional_attention");
  expect_error(R"("hidden_size_per_layer_input": -1)", "hidden_size_per_layer_input");
}

constexpr std::string_view kLlama4 =
    R"({"model_type": "llama4_text", "hidden_size": 64, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 4)";

TEST(ModelConfig, LayersOfLlama4RotateInChunks) {
  // As in the first checkpoints: a number for true, and empty lists.
  const auto config = parse_model_config(fmt::format(
      R"({}, "attn_temperature_tuning": 4, "no_rope_layers": [], "interleave_moe_layer_step": 2}})",
      kLlama4));
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const LayerSpec& chunked = spec->layers[0];
  const LayerSpec& full = spec->layers[3];
  EXPECT_EQ(chunked.attention.sliding_window, 8192);
  EXPECT_TRUE(chunked.attention.window_is_chunk);
  EXPECT_TRUE(chunked.attention.qk_norm && chunked.attention.plain_qk_norm);
  EXPECT_FALSE(chunked.attention.scales_queries);
  EXPECT_EQ(chunked.ffn.intermediate_size, 16384);
  EXPECT_EQ(full.attention.sliding_window, 0);
  EXPECT_EQ(full.attention.rope_style, RopeStyle::kNone);
  EXPECT_FALSE(full.attention.qk_norm);
  EXPECT_TRUE(full.attention.scales_queries);
  EXPECT_TRUE(full.ffn.experts.weighs_inputs);
  EXPECT_EQ(full.ffn.experts.intermediate_size, 8192);
  EXPECT_EQ(full.ffn.intermediate_size, 8192);
  EXPECT_EQ(spec->query_scale->first, 1);
}

TEST(ModelConfig, RefusesChunksAndExpertsOfLlama4ThatCannotBe) {
  const auto expect_error = [](std::string_view more, std::string_view part) {
    const std::string error = error_of(fmt::format("{}, {}}}", kLlama4, more));
    EXPECT_NE(error.find(part), std::string::npos) << more << ": " << error;
  };
  expect_error(R"("attention_chunk_size": 0)", "attention_chunk_size: expected an integer in [1");
  expect_error(R"("layer_types": ["chunked_attention"])", "expected num_hidden_layers = 4");
  expect_error(R"("layer_types": ["sliding_attention", "a", "b", "c"])",
               "expected chunked_attention or full_attention, got sliding_attention");
  expect_error(R"("no_rope_layers": [1, 1])", "no_rope_layers: expected num_hidden_layers = 4");
  expect_error(R"("num_experts_per_tok": 2)", "num_experts_per_tok: expected 1");
  expect_error(R"("num_local_experts": 0)", "num_experts");
  expect_error(R"("moe_layers": [4])", "moe_layers: expected layers from 0 to 3, got 4");
  expect_error(R"("moe_layers": [-1])", "moe_layers: expected layers from 0 to 3, got -1");
  expect_error(R"("sliding_window": 512)", "sliding_window: expected none, got 512");
}

TEST(ModelConfig, BaichuanIsToldByItsLengthAndItsVocabulary) {
  const auto config_of = [](std::string_view more) {
    const auto config = parse_model_config(fmt::format(
        R"({{"model_type": "baichuan", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4{}}})",
        more));
    EXPECT_TRUE(config.ok()) << config.status().message();
    return *config;
  };
  const auto has_unit_head = [](const ModelConfig& config) {
    return find_role(checkpoint_names(config), TensorRole::kLmHead)->unit_rows;
  };
  const ModelConfig first = config_of(R"(, "vocab_size": 64000, "max_position_embeddings": 4096)");
  EXPECT_EQ(first.positions, PositionKind::kRope);
  EXPECT_FALSE(has_unit_head(first));
  const ModelConfig second = config_of(R"(, "max_position_embeddings": 4096)");
  EXPECT_EQ(second.positions, PositionKind::kRope);
  EXPECT_TRUE(has_unit_head(second));
  const ModelConfig larger = config_of(R"(, "vocab_size": 64000, "model_max_length": 8192)");
  EXPECT_EQ(larger.positions, PositionKind::kAlibi);
  EXPECT_EQ(larger.max_model_len(), 8192);
  EXPECT_NE(error_of(R"({"model_type": "baichuan", "model_max_length": 0})")
                .find("model_max_length: expected an integer in [1"),
            std::string::npos);
}

TEST(ModelConfig, AListOfWidthsIsOnePerLayer) {
  const auto config_of = [](std::string_view widths) {
    return fmt::format(R"({{"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
                            "intermediate_size": {}, "num_hidden_layers": 2, "num_attention_heads": 8}})",
                       widths);
  };
  const auto config = parse_model_config(config_of("[96, 32]"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto spec = make_decoder_spec(*config, 64, DType::kF32);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->layers[0].ffn.intermediate_size, 96);
  EXPECT_EQ(spec->layers[1].ffn.intermediate_size, 32);
  EXPECT_NE(error_of(config_of("[96]")).find("num_hidden_layers = 2 entries, got 1"),
            std::string::npos);
  EXPECT_NE(error_of(config_of("[96, 0]")).find("intermediate_size: expected integers"),
            std::string::npos);
}

// Hunyuan-A13B repeats the same number for every layer.
TEST(ModelConfig, AListOfEqualIntegersIsOneOfThem) {
  constexpr std::string_view kHunyuan =
      R"({"model_type": "hunyuan_v1_moe", "num_hidden_layers": 3, "intermediate_size": 96, "num_experts": 8,
          "moe_intermediate_size": [96, 96, 96])";
  const auto config = parse_model_config(fmt::format(R"({}, "moe_topk": [2, 2, 2]}})", kHunyuan));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->experts.spec.router.experts_per_token, 2);
  EXPECT_EQ(config->experts.spec.intermediate_size, 96);
  EXPECT_NE(
      error_of(fmt::format(R"({}, "moe_topk": [2, 1, 2]}})", kHunyuan)).find("num_experts_per_tok"),
      std::string::npos);
}

TEST(ModelConfig, KimiLinearNumbersItsLayersFromOne) {
  const auto config_of = [](std::string_view layers) {
    return fmt::format(
        R"({{"model_type": "kimi_linear", "num_hidden_layers": 3, "linear_attn_config": {{{},
                            "num_heads": 8, "head_dim": 64, "short_conv_kernel_size": 3}}}})",
        layers);
  };
  const auto config =
      parse_model_config(config_of(R"("kda_layers": [1, 3], "full_attn_layers": [2])"));
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(config->layer_parts[0].state);
  EXPECT_TRUE(config->layer_parts[1].attention);
  EXPECT_TRUE(config->layer_parts[2].state);
  EXPECT_EQ(config->state.num_heads, 8);
  EXPECT_EQ(config->state.conv_kernel, 3);
  EXPECT_NE(error_of(config_of(R"("kda_layers": [0, 1], "full_attn_layers": [2])"))
                .find("expected layers from 1 to 3, got 0"),
            std::string::npos);
  EXPECT_NE(error_of(config_of(R"("kda_layers": [1], "full_attn_layers": [2])"))
                .find("expected each of 3 layers"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
