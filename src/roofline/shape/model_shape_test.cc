#include "roofline/shape/model_shape.h"

#include <gtest/gtest.h>

#include "roofline/model/memory_model.h"
#include "roofline/testing/test_models.h"

namespace quire {
namespace {

using test::model_of;

TEST(ModelShape, Llama31_8BByHand) {
  const ModelShape model = model_of(test::kLlama31_8B);
  EXPECT_EQ(model.num_layers(), 32);
  // 32 x (4096 x 48 x 128 + 4096 x 4096 + 3 x 4096 x 14336) + 2 x 128256 x 4096
  EXPECT_EQ(model.num_parameters(), 8'029'995'008);
  EXPECT_EQ(model.num_active_parameters(), 8'029'995'008 - int64_t{128256} * 4096);
  EXPECT_EQ(model.kv_bytes_per_token(), 131072);  // 2 x 32 x 8 x 128 x 2
  EXPECT_TRUE(model.windows().empty());
}

TEST(ModelShape, Qwen3_30B_A3BByHand) {
  const ModelShape model = model_of(test::kQwen3_30B_A3B);
  ASSERT_EQ(model.groups.size(), 1u);
  EXPECT_EQ(model.groups[0].ffn.intermediate_size, 0);
  // 48 x (2048 x 40 x 128 + 4096 x 2048 + 128 x (3 x 2048 x 768 + 2048)) + 2 x 151936 x 2048
  EXPECT_EQ(model.num_parameters(), 30'531'911'680);
  EXPECT_EQ(model.num_active_parameters(), 3'041'656'832);
  EXPECT_EQ(model.kv_bytes_per_token(), 98304);
}

TEST(ModelShape, DeepSeekV2LiteByHand) {
  const ModelShape model = model_of(test::kDeepSeekV2Lite);
  ASSERT_EQ(model.groups.size(), 2u);  // one dense layer, 26 of experts
  EXPECT_EQ(model.groups[0].num_layers, 1);
  EXPECT_EQ(model.groups[1].num_layers, 26);
  EXPECT_EQ(model.num_parameters(), 15'706'357'760);
  EXPECT_EQ(model.kv_bytes_per_token(), 31104);  // 27 x (512 + 64) x 2
}

TEST(ModelShape, DescriptionsKeepStates) {
  ModelShape model = model_of(test::kLlama31_8B);
  LayerGroup layer{.num_layers = 3, .attention = {}, .ffn = {}, .state = {}};
  layer.state = {
      .in_rows = 5, .inner_size = 4, .middle_elements = 3, .num_floats = 2, .token_flops = 1};
  model.groups.push_back(layer);
  const Result<ModelShape> read = parse_model_description(to_json(model), "log");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read->groups[1].is_like(layer));
  EXPECT_EQ(read->state_bytes_per_sequence(), 3 * 2 * 4);
  model.groups[1].state.num_floats = 0;
  EXPECT_NE(model.validate().message().find("num_floats"), std::string_view::npos);
  // A layer may lack attention if another one has some; without states one must.
  model.groups[1] = {
      .num_layers = 1, .attention = {}, .ffn = {.intermediate_size = 8}, .state = {}};
  EXPECT_TRUE(model.validate().ok());
  model.groups[0].attention = {};
  EXPECT_NE(model.validate().message().find("num_heads"), std::string_view::npos);
}

TEST(ModelShape, Mixtral8x7BByHand) {
  const ModelShape model = model_of(test::kMixtral8x7B);
  // 32 x (4096 x 48 x 128 + 4096 x 4096 + 8 x (3 x 4096 x 14336 + 4096)) + 2 x 32000 x 4096
  EXPECT_EQ(model.num_parameters(), 46'702'526'464);
  // 2 of 8 experts; one of the two tables
  EXPECT_EQ(model.num_active_parameters(), 12'748'587'008);
  EXPECT_EQ(model.kv_bytes_per_token(), 131072);
}

TEST(ModelShape, DeepSeekV3ByHand) {
  const ModelShape model = model_of(test::kDeepSeekV3);
  ASSERT_EQ(model.groups.size(), 2u);  // 3 dense layers, 58 of experts
  // attention 187,105,280 a layer; dense 396,361,728; experts 257 x 44,040,192 and a router
  EXPECT_EQ(model.num_parameters(), 671'025'397'760);
  EXPECT_EQ(model.num_active_parameters(), 36'624'596'992);
  EXPECT_EQ(model.kv_bytes_per_token(), 70272);  // 61 x (512 + 64) x 2
}

TEST(ModelShape, GptOss120BByHand) {
  const ModelShape model = model_of(test::kGptOss120B);
  // 36 x (2880 x 80 x 64 + 4096 x 2880 + 128 x (3 x 2880 x 2880 + 2880)) + 2 x 201088 x 2880
  EXPECT_EQ(model.num_parameters(), 116'788'838'400);
  EXPECT_EQ(model.windows(), std::vector<int32_t>{128});
  EXPECT_EQ(model.kv_bytes_per_token(), 73728);
}

TEST(ModelShape, SlidingWindows) {
  const ModelShape gemma2 = model_of(test::kGemma2_9B);
  ASSERT_EQ(gemma2.groups.size(), 2u);
  EXPECT_EQ(gemma2.groups[0].num_layers, 21);
  EXPECT_EQ(gemma2.groups[0].attention.sliding_window, 4096);
  EXPECT_EQ(gemma2.groups[1].attention.sliding_window, 0);
  EXPECT_EQ(gemma2.windows(), std::vector<int32_t>{4096});
  EXPECT_TRUE(gemma2.tied_head);

  const ModelShape listed = model_of(
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100,
          "intermediate_size": 128, "sliding_window": 16,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})");
  EXPECT_EQ(listed.groups[0].num_layers, 2);
  EXPECT_EQ(listed.groups[0].attention.sliding_window, 16);
}

TEST(ModelShape, QwenWindowsAreOffUnlessAsked) {
  const std::string config = R"({"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 4,
      "num_attention_heads": 4, "vocab_size": 100, "intermediate_size": 128, "sliding_window": 16,
      "max_window_layers": 3, "use_sliding_window": )";
  EXPECT_TRUE(model_of((config + "false}").c_str()).windows().empty());
  const ModelShape on = model_of((config + "true}").c_str());
  ASSERT_EQ(on.groups.size(), 2u);
  EXPECT_EQ(on.groups[0].num_layers, 3);
  EXPECT_EQ(on.groups[1].attention.sliding_window, 16);
}

TEST(ModelShape, GemmaText3NestedConfigAndPattern) {
  const ModelShape model = model_of(
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
          "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
          "head_dim": 256, "intermediate_size": 10240, "vocab_size": 262208,
          "sliding_window": 1024, "sliding_window_pattern": 6}})");
  ASSERT_EQ(model.groups.size(), 2u);
  EXPECT_EQ(model.groups[0].num_layers, 29);
  EXPECT_EQ(model.groups[1].num_layers, 5);
}

TEST(ModelShape, QuantizationConfigs) {
  const auto with = [](const std::string& quantization) {
    return model_of(
        (R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 100, "intermediate_size": 128, "quantization_config": )" +
         quantization + "}")
            .c_str());
  };
  const ModelShape awq = with(R"({"quant_method": "awq", "bits": 4, "group_size": 128})");
  EXPECT_NEAR(awq.weights.bits, 4.156, 0.001);
  EXPECT_EQ(awq.weights.math, MathType::kBf16);
  EXPECT_EQ(awq.head_weights.bits, 16);
  EXPECT_EQ(with(R"({"quant_method": "fp8"})").weights.math, MathType::kFp8);
  const ModelShape w8a8 = with(
      R"({"quant_method": "compressed-tensors", "config_groups": {"group_0":
          {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}}})");
  EXPECT_EQ(w8a8.weights, (NumberFormat{8, MathType::kInt8}));
  const auto compressed = [&](const std::string& weights, const char* activations) {
    return with(
               R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {)" +
               weights + R"(}, "input_activations": )" + activations + "}}}")
        .weights;
  };
  // 8 bits of scale per 16 or 32 weights, whatever the activations are.
  const std::string nvfp4 = R"("num_bits": 4, "type": "float", "group_size": 16)";
  const std::string mxfp4 = R"("num_bits": 4, "type": "float", "group_size": 32)";
  const std::string mxfp8 = R"("num_bits": 8, "type": "float", "group_size": 32)";
  EXPECT_EQ(compressed(nvfp4, R"({"num_bits": 4})"), (NumberFormat{4.5, MathType::kFp4}));
  EXPECT_EQ(compressed(nvfp4, "null"), (NumberFormat{4.5, MathType::kBf16}));
  EXPECT_EQ(compressed(mxfp4, "null"), (NumberFormat{4.25, MathType::kBf16}));
  EXPECT_EQ(compressed(mxfp4, R"({"num_bits": 4})"), (NumberFormat{4.25, MathType::kFp4}));
  EXPECT_EQ(compressed(mxfp8, R"({"num_bits": 8})"), (NumberFormat{8.25, MathType::kFp8}));
  EXPECT_EQ(compressed(R"("num_bits": 8, "type": "float", "group_size": null)", "null"),
            (NumberFormat{8, MathType::kBf16}));
  EXPECT_EQ(compressed(R"("num_bits": 8, "type": "int", "group_size": -1)", R"({"num_bits": 8})"),
            (NumberFormat{8, MathType::kInt8}));
  const ModelShape gpt_oss = with(R"({"quant_method": "mxfp4"})");
  EXPECT_EQ(gpt_oss.weights.bits, 16);
  EXPECT_EQ(gpt_oss.expert_weights.bits, 4.25);
}

TEST(ModelShape, TypeOfTheWeightsAsStored) {
  const auto parsed = [](const std::string& field) {
    return parse_model_shape(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 10, "intermediate_size": 8)" +
                             field + "}");
  };
  EXPECT_EQ(parsed("").value().weights.bits, 16);
  EXPECT_EQ(parsed(R"(, "torch_dtype": null)").value().weights.bits, 16);
  EXPECT_EQ(parsed(R"(, "torch_dtype": "torch.float32")").value().weights.bits, 32);
  EXPECT_EQ(parsed(R"(, "dtype": "float32")").value().weights.bits, 32);
  EXPECT_EQ(parsed(R"(, "dtype": "float8_e4m3fn")").value().weights.bits, 8);
  for (const std::string key : {"torch_dtype", "dtype"}) {
    EXPECT_EQ(parsed(", \"" + key + R"(": "complex64")").status().message(),
              "config.json: " + key +
                  ": expected bfloat16, float16, float32 or the name of another format, got "
                  "complex64");
    EXPECT_NE(parsed(", \"" + key + R"(": 16)").status().message().find(key), std::string::npos);
  }
}

TEST(ModelShape, PlainMlpAndMultiQuery) {
  const ModelShape gpt2 = model_of(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12,
      "n_head": 12, "vocab_size": 50257, "n_positions": 1024})");
  EXPECT_EQ(gpt2.groups[0].ffn.num_matrices, 2);
  EXPECT_EQ(gpt2.groups[0].ffn.intermediate_size, 3072);
  EXPECT_TRUE(gpt2.tied_head);
  const ModelShape falcon = model_of(R"({"model_type": "falcon", "hidden_size": 4544,
      "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": true,
      "vocab_size": 65024})");
  EXPECT_EQ(falcon.groups[0].attention.num_kv_heads, 1);
}

TEST(ModelShape, RefusesWhatMakesNoSense) {
  const auto message = [](const char* text) { return parse_model_shape(text).status().message(); };
  EXPECT_NE(
      message(
          R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 10, "intermediate_size": 8, "quantization_config": {"quant_method": "hqq"}})")
          .find("got hqq"),
      std::string::npos);
  EXPECT_NE(
      message(
          R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 10, "intermediate_size": 8,
      "quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}})")
          .find("expected FP8 or NVFP4, got W4A16_AWQ"),
      std::string::npos);
  EXPECT_NE(message("").find("expected JSON"), std::string::npos);
  EXPECT_NE(message("[]").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(message("{}").find("hidden_size: expected an integer, got nothing"), std::string::npos);
  EXPECT_NE(message(R"({"model_type": "llama", "hidden_size": -1})").find("got -1"),
            std::string::npos);
  EXPECT_NE(
      message(
          R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 3, "vocab_size": 10, "intermediate_size": 8})")
          .find("num_kv_heads: expected a divisor"),
      std::string::npos);
  EXPECT_NE(
      message(
          R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 10, "intermediate_size": 8, "layer_types": ["linear_attention", "x"]})")
          .find("got linear_attention"),
      std::string::npos);
}

// Half of the layers use the keys and values of others, from rows of twice the hidden size.
TEST(ModelShape, SharedKeysTakeNoMemoryAndNoProjection) {
  ModelShape model = model_of(test::kLlama31_8B);
  const double parameters = static_cast<double>(model.num_parameters());
  LayerGroup sharing = model.groups[0];
  model.groups[0].num_layers = sharing.num_layers = 16;
  sharing.attention.shares_kv = true;
  sharing.attention.num_inputs = 2;
  sharing.more_elements = 1'000'000;
  sharing.table_elements = 5'000'000;
  model.groups.push_back(sharing);
  EXPECT_EQ(model.kv_bytes_per_token(), 65536);
  // 16 layers have no keys and values (2 * 8 heads), but 32 more heads of queries.
  const double more = 16 * (4096.0 * 128 * (32 - 16) + 1e6);
  EXPECT_DOUBLE_EQ(static_cast<double>(model.num_parameters()), parameters + more + 16 * 5e6);
  EXPECT_DOUBLE_EQ(static_cast<double>(model.num_active_parameters()),
                   parameters + more - 128256.0 * 4096);
  const auto memory = estimate_memory(model, find_hardware("h100-sxm").value(), {});
  EXPECT_EQ(memory->kv_bytes_per_token, 65536);
  EXPECT_NEAR(memory->weight_bytes, 2 * static_cast<double>(model.num_parameters()), 1e6);
  EXPECT_EQ(to_json(parse_model_description(to_json(model), "again").value()), to_json(model));
}

TEST(MemoryModel, Llama8BOnH100) {
  const ModelShape model = model_of(test::kLlama31_8B);
  const Hardware hardware = find_hardware("H100 SXM").value();
  const MemoryEstimate one = estimate_memory(model, hardware, {}).value();
  EXPECT_NEAR(one.weight_bytes, 8.03e9 * 2, 1e7);
  EXPECT_EQ(one.kv_bytes_per_token, 131072);
  EXPECT_GT(one.num_blocks, 20'000);
  EXPECT_LT(one.num_blocks, 32'000);
  // Each of two devices has half of the weights and half of the heads.
  const MemoryEstimate two = estimate_memory(model, hardware, {.tp = 2}).value();
  EXPECT_NEAR(two.weight_bytes, one.weight_bytes / 2, 1e6);
  EXPECT_EQ(two.kv_bytes_per_token, 65536);
  EXPECT_GT(two.num_blocks, 2 * one.num_blocks);
}

TEST(MemoryModel, LatentCacheIsNotCut) {
  const ModelShape model = model_of(test::kDeepSeekV2Lite);
  const Hardware hardware = find_hardware("h100-sxm").value();
  EXPECT_EQ(estimate_memory(model, hardware, {.tp = 2}).value().kv_bytes_per_token, 31104);
}

TEST(MemoryModel, SaysHowMuchIsMissing) {
  const ModelShape model = model_of(test::kQwen3_30B_A3B);
  const auto estimate = estimate_memory(model, find_hardware("rtx-4090").value(), {});
  ASSERT_FALSE(estimate.ok());
  EXPECT_EQ(estimate.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(estimate.status().message().find("GB are missing"), std::string::npos);
}

TEST(ModelShape, AnUnknownArchitectureIsNotTakenForATransformer) {
  constexpr std::string_view kSizes =
      R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "vocab_size": 100})";
  const auto message = [&](std::string_view start) {
    return parse_model_shape(std::string(start) + std::string(kSizes)).status().message();
  };
  EXPECT_EQ(message(R"({"model_type": "llama", )"), "");
  EXPECT_NE(message(R"({"model_type": "retnet", )").find("got 'retnet'"), std::string::npos);
  EXPECT_NE(message("{").find("got ''"), std::string::npos);
}

}  // namespace
}  // namespace quire
