// Configurations of models whose layers share something: residual streams, keys and values, blocks.
#include <gtest/gtest.h>

#include "models/model_config.h"

namespace quire {
namespace {

// Returns the configuration with more fields; as in Python, the last value of a repeated key
// counts.
std::string with(std::string_view base, std::string_view more) {
  return fmt::format("{}{}{}}}", base, more.empty() ? "" : ", ", more);
}

void expect_error(std::string_view base, std::string_view more, std::string_view part) {
  const auto config = parse_model_config(with(base, more));
  ASSERT_FALSE(config.ok()) << more;
  EXPECT_NE(config.status().message().find(part), std::string::npos)
      << more << ": " << config.status().message();
  EXPECT_EQ(config.status().message().find('\n'), std::string::npos);
}

DecoderSpec spec_of(std::string_view base, std::string_view more) {
  const auto config = parse_model_config(with(base, more));
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? make_decoder_spec(*config, 64, DType::kF32).value() : DecoderSpec{};
}

constexpr std::string_view kGemma3n =
    R"({"model_type": "gemma3n_text", "hidden_size": 64, "num_hidden_layers": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "laurel_rank": 8,
        "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 5)";

TEST(LayeredConfig, Gemma3nSaysWhatItLeavesOut) {
  const DecoderSpec spec =
      spec_of(kGemma3n, R"("num_kv_shared_layers": 5, "intermediate_size": 96)");
  EXPECT_EQ(spec.streams.count, 4);
  EXPECT_EQ(spec.streams.active, 0);
  EXPECT_TRUE(spec.streams.scales_output);
  EXPECT_EQ(spec.final_soft_cap, 30.0f);
  EXPECT_TRUE(spec.tied_head);
  ASSERT_EQ(spec.layers.size(), 12u);
  // Every fifth layer is full, the first ten are sparse, and the last five read the keys and values
  // of the last layer of their kind.
  EXPECT_EQ(spec.layers[3].attention.sliding_window, 512);
  EXPECT_EQ(spec.layers[4].attention.sliding_window, 0);
  EXPECT_EQ(spec.layers[4].attention.scale, 1.0f);
  EXPECT_EQ(spec.layers[9].attention.kv_layer, 4);
  EXPECT_EQ(spec.layers[8].attention.kv_layer, 6);
  ASSERT_TRUE(spec.layers[9].ffn.gate_cut.has_value());
  EXPECT_NEAR(*spec.layers[9].ffn.gate_cut, 1.6448536f, 1e-6f);
  EXPECT_FALSE(spec.layers[10].ffn.gate_cut.has_value());
}

TEST(LayeredConfig, Gemma3nHonoursItsLists) {
  const DecoderSpec spec = spec_of(
      R"({"model_type": "gemma3n_text", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "head_dim": 16, "laurel_rank": 8)",
      R"("num_kv_shared_layers": 0, "intermediate_size": [96, 64], "altup_num_inputs": 2,
         "altup_active_idx": 1, "altup_correct_scale": false, "final_logit_softcapping": null,
         "activation_sparsity_pattern": [0.5, 0.0], "hidden_activation": "gelu")");
  EXPECT_EQ(spec.layers[0].ffn.intermediate_size, 96);
  EXPECT_EQ(spec.layers[1].ffn.intermediate_size, 64);
  EXPECT_NEAR(spec.layers[0].ffn.gate_cut.value_or(1.0f), 0.0f, 1e-6f);
  EXPECT_FALSE(spec.layers[1].ffn.gate_cut.has_value());
  EXPECT_EQ(spec.streams.count, 2);
  EXPECT_EQ(spec.streams.active, 1);
  EXPECT_FALSE(spec.streams.scales_output);
  EXPECT_EQ(spec.final_soft_cap, 0.0f);
  EXPECT_EQ(spec.layer_inputs.activation, Activation::kGeluErf);
}

TEST(LayeredConfig, RefusesStreamsThatCannotBe) {
  expect_error(kGemma3n, R"("activation_sparsity_pattern": [0.5])",
               "activation_sparsity_pattern: expected num_hidden_layers = 12 entries, got 1");
  expect_error(kGemma3n, R"("activation_sparsity_pattern": 0.5)", "activation_sparsity_pattern");
  expect_error(kGemma3n, R"("activation_sparsity_pattern": [1.0,0,0,0,0,0,0,0,0,0,0,0])",
               "activation_sparsity_pattern: expected shares below 1, got 1");
  expect_error(kGemma3n, R"("altup_num_inputs": 0)", "altup_num_inputs");
  expect_error(kGemma3n, R"("altup_num_inputs": 17)", "altup_num_inputs");
  expect_error(kGemma3n, R"("altup_active_idx": 4)", "altup_active_idx");
  expect_error(kGemma3n, R"("num_kv_shared_layers": 12)", "num_kv_shared_layers");
  expect_error(kGemma3n, R"("num_kv_shared_layers": 8)", "a layer of the kind of layer 4");
  expect_error(kGemma3n, R"("intermediate_size": [1, 2])", "intermediate_size");
  constexpr std::string_view kBare =
      R"({"model_type": "gemma3n_text", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "head_dim": 16, "num_kv_shared_layers": 0)";
  expect_error(kBare, R"("laurel_rank": 0)", "laurel_rank");
  expect_error(kBare, R"("laurel_rank": 8, "hidden_size_per_layer_input": 0)",
               "hidden_size_per_layer_input: expected at least 1");
}

constexpr std::string_view kZamba2 =
    R"({"model_type": "zamba2", "hidden_size": 64, "num_hidden_layers": 6, "vocab_size": 160,
        "layers_block_type": ["mamba", "hybrid", "linear_attention", "hybrid", "hybrid", "mamba"],
        "num_attention_heads": 4, "n_mamba_heads": 8, "adapter_rank": 4)";

TEST(LayeredConfig, BlocksOfZamba2AreUsedInTurn) {
  const DecoderSpec spec =
      spec_of(kZamba2, R"("num_mem_blocks": 2, "use_mem_rope": true, "attention_head_dim": 99)");
  ASSERT_EQ(spec.layers.size(), 6u);
  EXPECT_FALSE(spec.layers[0].shared.any());
  EXPECT_FALSE(spec.layers[0].attention.any());
  EXPECT_FALSE(spec.layers[0].ffn.any());
  EXPECT_EQ(spec.layers[1].shared.weights_layer, 1);
  EXPECT_EQ(spec.layers[3].shared.weights_layer, 3);
  EXPECT_EQ(spec.layers[4].shared.weights_layer, 1);
  EXPECT_EQ(spec.layers[4].shared.use, 2);
  EXPECT_FALSE(spec.layers[4].shared.updates_attention);
  const AttentionSpec& attention = spec.layers[4].attention;
  EXPECT_EQ(attention.head_dim, 32);  // of twice the hidden size
  EXPECT_EQ(attention.scale, 0.25f);  // of half a head
  EXPECT_TRUE(attention.reads_pairs);
  EXPECT_EQ(attention.rope_style, RopeStyle::kNeox);
  EXPECT_EQ(spec.layers[4].ffn.intermediate_size, 256);
  EXPECT_EQ(spec.layers[4].state.value_dim, 16);
  EXPECT_TRUE(spec.layers[4].state.conv_bias);
  // The third use has neither attention nor MLP of its own.
  const int64_t third = spec.num_parameters();
  DecoderSpec two = spec;
  two.layers[4].shared = {};
  two.layers[4].attention = {};
  two.layers[4].ffn = {};
  EXPECT_EQ(third - two.num_parameters(), 64 * 64 + 4 * (64 + 512));
  // Without tied embeddings, each use has a block of its own.
  const DecoderSpec untied = spec_of(kZamba2, R"("tie_word_embeddings": false)");
  EXPECT_EQ(untied.layers[4].shared.weights_layer, 4);
  EXPECT_EQ(untied.layers[4].attention.rope_style, RopeStyle::kNone);
}

TEST(LayeredConfig, AttentionNeedsKvHeads) {
  expect_error(
      R"({"model_type": "nemotron-nas", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "layer_num_heads": [4, 4], "layer_intermediate_sizes": [32, 32])",
      R"("layer_num_kv_heads": [2, 0])", "layer 1: expected KV heads for the 4 query heads, got 0");
}

TEST(LayeredConfig, RefusesBlocksThatCannotBe) {
  expect_error(kZamba2, R"("num_hidden_layers": 7)", "num_hidden_layers = 7 entries, got 6");
  expect_error(kZamba2, R"("num_mem_blocks": 0)", "num_mem_blocks");
  expect_error(kZamba2, R"("adapter_rank": 0)", "adapter_rank");
  expect_error(kZamba2, R"("n_mamba_heads": 7)", "n_mamba_heads: expected a divisor of 128");
  expect_error(kZamba2, R"("mamba_d_conv": 0)", "mamba_d_conv");
  expect_error(kZamba2, R"("mamba_ngroups": 3)", "mamba_ngroups");
  constexpr std::string_view kBare =
      R"({"model_type": "zamba2", "hidden_size": 64, "num_hidden_layers": 6, "vocab_size": 160)";
  expect_error(kBare, "", "layers_block_type: expected num_hidden_layers = 6 entries, got none");
  expect_error(kBare, R"("layers_block_type": ["mamba","mamba","mamba","mamba","mamba","moe"])",
               "layers_block_type: expected one of hybrid, linear_attention, mamba, got moe");
}

}  // namespace
}  // namespace quire
