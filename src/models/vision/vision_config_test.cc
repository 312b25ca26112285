#include "models/vision/vision_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/test_data.h"

namespace quire {
namespace {

std::string golden_file(std::string_view model, std::string_view name) {
  return test::read_file(test::source_dir() / "tests" / "goldens" / "vision" / std::string(model) /
                         std::string(name));
}

TEST(VisionConfig, Llava) {
  const auto vision = parse_vision(golden_file("llava", "config.json"),
                                   golden_file("llava", "preprocessor_config.json"), 32);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  EXPECT_EQ((*vision)->image_size, 30);
  EXPECT_EQ((*vision)->max_embeddings(), 25);
  EXPECT_EQ((*vision)->max_rows(), 26);
  EXPECT_EQ((*vision)->encoder.layers.size(), 3u) << "all but the last";
  EXPECT_EQ((*vision)->placeholder, 150);
  EXPECT_FLOAT_EQ((*vision)->mean[0], 0.48145466f);
}

// The configuration of the released model leaves out CLIP's defaults.
TEST(VisionConfig, DefaultsOfThePublishedModel) {
  const auto vision = parse_vision(R"({"model_type": "llava", "vision_config": {
      "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
      "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24,
      "patch_size": 14, "projection_dim": 768, "vocab_size": 32000}})",
                                   "", 4096);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  EXPECT_EQ((*vision)->max_embeddings(), 576);
  EXPECT_EQ((*vision)->encoder.layers.size(), 23u);
  EXPECT_EQ((*vision)->encoder.layers[0].ffn.activation, Activation::kQuickGelu);
  EXPECT_EQ((*vision)->placeholder, 32000);
}

// The configuration of Qwen/Qwen2.5-VL-7B-Instruct.
TEST(VisionConfig, Qwen25Vl) {
  const auto vision = parse_vision(R"({"model_type": "qwen2_5_vl", "hidden_size": 3584,
      "image_token_id": 151655, "vision_config": {"depth": 32, "hidden_act": "silu",
      "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "in_chans": 3,
      "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
      "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
      "tokens_per_second": 2, "temporal_patch_size": 2}})",
                                   R"({"min_pixels": 3136, "max_pixels": 12845056})", 3584);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  const VisionSpec& spec = **vision;
  EXPECT_EQ(spec.cell_size(), 28);
  EXPECT_EQ(spec.window_cells, 4);
  EXPECT_TRUE(spec.layer_has_windows[6]);
  EXPECT_FALSE(spec.layer_has_windows[7]);
  EXPECT_EQ(spec.patch_elements(), 1176);
  EXPECT_EQ(spec.encoder.layers[0].attention.head_dim, 80);
  EXPECT_EQ(spec.encoder.ropes[0].pair_axes[19], 1);
  EXPECT_EQ(spec.encoder.ropes[0].pair_axes[20], 2);
  EXPECT_EQ(spec.max_cells, VisionSpec::kMaxCells) << "16384 would be more than is served";
  EXPECT_TRUE(spec.has_grid_positions);
}

TEST(VisionConfig, Qwen3VlHasTapsAndQwen35HasNone) {
  const auto vl = parse_vision(golden_file("qwen3_vl", "config.json"),
                               golden_file("qwen3_vl", "preprocessor_config.json"), 32);
  ASSERT_TRUE(vl.ok() && vl->has_value()) << vl.status().message();
  EXPECT_EQ((*vl)->tap_layers, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ((*vl)->embedding_size(), 3 * 32);
  EXPECT_EQ((*vl)->max_cells, 64) << "of 4096 pixels";
  EXPECT_FLOAT_EQ((*vl)->mean[2], 0.5f);
  const auto plain = parse_vision(golden_file("qwen3_5", "config.json"), "", 32);
  ASSERT_TRUE(plain.ok() && plain->has_value()) << plain.status().message();
  EXPECT_EQ((*plain)->embedding_size(), 32);
}

TEST(VisionConfig, ErrorsOfQwenNameTheField) {
  for (const auto& [tower, part] : {std::pair{R"("num_heads": 7)", "hidden_size"},
                                    {R"("hidden_size": 24, "num_heads": 4)", "num_heads"},
                                    {R"("window_size": 20)", "window_size"},
                                    {R"("fullatt_block_indexes": [2])", "fullatt_block_indexes"},
                                    {R"("fullatt_block_indexes": [0.5])", "fullatt_block_indexes"},
                                    {R"("out_hidden_size": 31)", "out_hidden_size"},
                                    {R"("in_channels": 1)", "in_channels"},
                                    {R"("patch_size": 0)", "patch_size"},
                                    {R"("spatial_merge_size": 9)", "spatial_merge_size"},
                                    {R"("hidden_act": "relu")", "hidden_act"}}) {
    // The last value of a repeated key counts.
    const std::string config =
        std::string(R"({"model_type": "qwen2_5_vl", "vision_config": {"hidden_size": 32,
        "num_heads": 4, "depth": 2, "intermediate_size": 8, "out_hidden_size": 32, "fullatt_block_indexes": [1], )") +
        tower + "}}";
    const auto vision = parse_vision(config, "", 32);
    ASSERT_FALSE(vision.ok()) << config;
    EXPECT_NE(vision.status().message().find(part), std::string::npos) << vision.status().message();
  }
  const auto table = parse_vision(
      R"({"model_type": "qwen3_vl", "vision_config": {"out_hidden_size": 32,
          "num_position_embeddings": 50}})",
      "", 32);
  EXPECT_NE(table.status().message().find("num_position_embeddings: expected a square"),
            std::string::npos)
      << table.status().message();
}

// The configuration of google/gemma-3-4b-it.
TEST(VisionConfig, Gemma3) {
  const auto vision = parse_vision(R"({"model_type": "gemma3", "mm_tokens_per_image": 256,
      "boi_token_index": 255999, "eoi_token_index": 256000, "image_token_index": 262144,
      "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
      "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
      "patch_size": 14, "vision_use_head": false}})",
                                   R"({"do_pan_and_scan": null, "image_mean": [0.5, 0.5, 0.5],
      "image_std": [0.5, 0.5, 0.5], "resample": 2, "size": {"height": 896, "width": 896}})",
                                   2560);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  const VisionSpec& spec = **vision;
  EXPECT_EQ(spec.max_embeddings(), 256);
  EXPECT_EQ(spec.max_rows(), 4096);
  EXPECT_EQ(spec.encoder.layers.size(), 27u);
  EXPECT_EQ(spec.encoder.num_positions, 4096);
  EXPECT_EQ(spec.encoder.layers[0].ffn.activation, Activation::kGeluTanh);
  EXPECT_TRUE(spec.is_bidirectional);
  EXPECT_EQ(spec.placeholder, 262144);
  // The text that transformers' processor writes around a picture and its crops.
  EXPECT_EQ(spec.text.crops.before_whole, "Here is the original image ");
  EXPECT_EQ(spec.text.crops.behind_whole, " and here are some crops to help you see better ");
  EXPECT_EQ(spec.text.crops.between, " ");
}

// Missing keys of Gemma 4's configuration stand for the sizes of the smaller models.
TEST(VisionConfig, Gemma4) {
  const auto vision = parse_vision(R"({"model_type": "gemma4", "vision_config": {
      "model_type": "gemma4_vision", "use_clipped_linears": true},
      "text_config": {"use_bidirectional_attention": null}})",
                                   R"({"image_mean": [0.0, 0.0, 0.0], "image_std": [1.0, 1.0, 1.0],
      "do_normalize": false, "max_soft_tokens": 560, "patch_size": 16, "pooling_kernel_size": 3})",
                                   1536);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  const VisionSpec& spec = **vision;
  EXPECT_EQ(spec.cell_size(), 48);
  EXPECT_EQ(spec.max_embeddings(), 560);
  EXPECT_EQ(spec.max_rows(), 5040);
  EXPECT_EQ(spec.encoder.layers.size(), 16u);
  EXPECT_EQ(spec.encoder.num_positions, 2 * 10240);
  EXPECT_TRUE(spec.encoder.clamps_products);
  EXPECT_TRUE(spec.centers_channels);
  EXPECT_FALSE(spec.encoder.pooling.layers[1].input_norm->shifts_input);
  EXPECT_FALSE(spec.is_bidirectional);
  EXPECT_EQ(spec.encoder.ropes[0].pair_axes[15], 2);
  EXPECT_EQ(spec.encoder.ropes[0].pair_axes[16], 1);
  EXPECT_EQ(spec.encoder.ropes[0].inv_freq[16], 1.0);
  EXPECT_EQ(spec.placeholder, 258880);

  const auto large = parse_vision(golden_file("gemma4_moe", "config.json"),
                                  golden_file("gemma4_moe", "preprocessor_config.json"), 32);
  ASSERT_TRUE(large.ok() && large->has_value()) << large.status().message();
  EXPECT_TRUE((*large)->is_bidirectional);
  EXPECT_FALSE((*large)->encoder.clamps_products);
  EXPECT_TRUE((*large)->encoder.pooling.layers[1].input_norm->shifts_input);
}

TEST(VisionConfig, ErrorsOfGemma4NameTheField) {
  for (const auto& [tower, images, part] :
       {std::tuple{R"("head_dim": 6)", "{}", "head_dim"},
        {R"("num_key_value_heads": 5)", "{}", "num_key_value_heads"},
        {R"("attention_bias": true)", "{}", "attention_bias"},
        {R"("rope_parameters": {"rope_type": "yarn"})", "{}", "rope_type"},
        {R"("pooling_kernel_size": 0)", "{}", "pooling_kernel_size"},
        {R"("model_type": "siglip_vision_model")", "{}", "gemma4_vision"},
        {R"("patch_size": 16)", R"({"patch_size": 14})", "patch_size"},
        {R"("patch_size": 16)", R"({"max_soft_tokens": 4096})", "max_soft_tokens"}}) {
    const auto vision = parse_vision(
        fmt::format(R"({{"model_type": "gemma4", "vision_config": {{{}}}}})", tower), images, 32);
    ASSERT_FALSE(vision.ok()) << tower;
    EXPECT_NE(vision.status().message().find(part), std::string::npos) << vision.status().message();
  }
}

// Llama 3.2 Vision's tower, when the configuration states only the size of tiles.
TEST(VisionConfig, Mllama) {
  const auto vision = parse_vision(R"({"model_type": "mllama", "image_token_index": 128256,
      "vision_config": {"model_type": "mllama_vision_model", "image_size": 560}})",
                                   "", 4096);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  const VisionSpec& spec = **vision;
  EXPECT_TRUE(spec.canvas.any());
  EXPECT_EQ(spec.grids.size(), 8u);
  EXPECT_EQ(spec.max_rows(), 1601) << "of a tile";
  EXPECT_EQ(spec.source_rows(), 6404);
  EXPECT_EQ(spec.shape().num_embeddings, 6404);
  EXPECT_EQ(spec.encoder.layers.size(), 32u);
  EXPECT_EQ(spec.canvas.global.layers.size(), 8u);
  EXPECT_EQ(source_encoder(spec).layers.size(), 40u);
  EXPECT_EQ(spec.encoder.pooling.layers[1].num_inputs, 7680);
  EXPECT_TRUE(spec.canvas.global.block.output_gates);
}

TEST(VisionConfig, ErrorsOfMllamaNameTheField) {
  for (const auto& [tower, part] :
       {std::pair{R"("image_size": 450)", "image_size"},
        {R"("vision_output_dim": 7000)", "vision_output_dim"},
        {R"("intermediate_layers_indices": [32])", "intermediate_layers_indices"},
        {R"("supported_aspect_ratios": [[1, 1], [2, 1]])", "supported_aspect_ratios"},
        {R"("norm_eps": 1e-6)", "norm_eps"},
        {R"("num_channels": 1)", "num_channels"},
        {R"("max_num_tiles": 99)", "max_num_tiles"}}) {
    const auto vision = parse_vision(
        fmt::format(R"({{"model_type": "mllama", "vision_config": {{{}}}}})", tower), "", 32);
    ASSERT_FALSE(vision.ok()) << tower;
    EXPECT_NE(vision.status().message().find(part), std::string::npos) << vision.status().message();
  }
}

// The configurations of llava-hf/llava-v1.6-mistral-7b-hf, HuggingFaceTB/SmolVLM-Instruct and
// OpenGVLab/InternVL3-1B-hf.
TEST(VisionConfig, FamiliesOfTiles) {
  const auto next = parse_vision(R"({"model_type": "llava_next", "image_grid_pinpoints":
      [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]], "image_token_index": 32000,
      "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
      "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24,
      "patch_size": 14, "projection_dim": 768, "vocab_size": 32000}})",
                                 "", 4096);
  ASSERT_TRUE(next.ok() && next->has_value()) << next.status().message();
  EXPECT_EQ((*next)->tile_embeddings(), 576);
  EXPECT_EQ((*next)->max_tiles(), 5);
  EXPECT_EQ((*next)->max_embeddings(), 5 * 576 + 48);
  EXPECT_EQ((*next)->embedding_width(), 4096);

  const auto smol = parse_vision(R"({"model_type": "idefics3", "scale_factor": 3,
      "image_token_id": 49153, "vision_config": {"hidden_size": 1152, "image_size": 384,
      "intermediate_size": 4304, "max_image_size": {"longest_edge": 384}, "model_type": "idefics3",
      "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14}})",
                                 "", 2048);
  ASSERT_TRUE(smol.ok() && smol->has_value()) << smol.status().message();
  EXPECT_EQ((*smol)->max_embeddings(), 81) << "of 27 x 27 patches, which leave out 6 pixels";
  EXPECT_EQ((*smol)->placeholder, 49153);

  const auto internvl = parse_vision(R"({"model_type": "internvl", "downsample_ratio": 0.5,
      "image_token_id": 151667, "vision_feature_layer": -1, "vision_config": {
      "attention_bias": true, "hidden_act": "gelu", "hidden_size": 1024, "image_size": [448, 448],
      "intermediate_size": 4096, "layer_norm_eps": 1e-06, "layer_scale_init_value": 0.1,
      "model_type": "internvl_vision", "norm_type": "layer_norm", "num_attention_heads": 16,
      "num_hidden_layers": 24, "patch_size": [14, 14], "use_qk_norm": false}})",
                                     "", 896);
  ASSERT_TRUE(internvl.ok() && internvl->has_value()) << internvl.status().message();
  EXPECT_EQ((*internvl)->max_embeddings(), 256);
  EXPECT_EQ((*internvl)->max_rows(), 1025);
  EXPECT_TRUE((*internvl)->encoder.block.output_scales);
}

TEST(VisionConfig, ErrorsOfSquaresAndTilesNameTheField) {
  constexpr const char* kSiglip = R"("vision_config": {"image_size": 56, "patch_size": 14})";
  constexpr const char* kClip = R"("vision_config": {"image_size": 28, "patch_size": 14})";
  constexpr const char* kInternvl = R"("vision_config": {"image_size": 56, "patch_size": 14)";
  for (const auto& [config, part] :
       {std::pair{fmt::format(R"("model_type": "gemma3", "mm_tokens_per_image": 5, {})", kSiglip),
                  "mm_tokens_per_image"},
        {fmt::format(R"("model_type": "gemma3", "mm_tokens_per_image": 9, {})", kSiglip),
         "mm_tokens_per_image"},
        {R"("model_type": "gemma3", "vision_config": {"model_type": "pixtral"})", "pixtral"},
        {R"("model_type": "gemma3", "vision_config": {"num_channels": 1})", "num_channels"},
        {fmt::format(R"("model_type": "llava_next", {})", kClip), "image_grid_pinpoints"},
        {fmt::format(R"("model_type": "llava_next", "image_grid_pinpoints": [[28, 30]], {})",
                     kClip),
         "image_grid_pinpoints"},
        {fmt::format(R"("model_type": "llava_next", "image_grid_pinpoints": [28, 28], {})", kClip),
         "image_grid_pinpoints"},
        {fmt::format(R"("model_type": "llava_next", "image_grid_pinpoints": [[28, 28000]], {})",
                     kClip),
         "image_grid_pinpoints"},
        {fmt::format(R"("model_type": "llava_next", "vision_feature_select_strategy": "full", {})",
                     kClip),
         "vision_feature_select_strategy"},
        {fmt::format(R"("model_type": "smolvlm", "scale_factor": 3, {})", kSiglip), "scale_factor"},
        {fmt::format(R"("model_type": "internvl", "downsample_ratio": 0.3, {}}})", kInternvl),
         "downsample_ratio"},
        {fmt::format(R"("model_type": "internvl", "vision_feature_layer": -2, {}}})", kInternvl),
         "vision_feature_layer"},
        {fmt::format(R"("model_type": "internvl", {}, "norm_type": "rms_norm"}})", kInternvl),
         "norm_type"},
        {fmt::format(R"("model_type": "internvl", {}, "use_qk_norm": true}})", kInternvl),
         "use_qk_norm"}}) {
    const auto vision = parse_vision("{" + config + "}", "", 32);
    ASSERT_FALSE(vision.ok()) << config;
    EXPECT_NE(vision.status().message().find(part), std::string::npos) << vision.status().message();
  }
}

TEST(VisionConfig, FewerTokensOfAnImage) {
  const auto limited = [](std::string_view model, int32_t max_tokens) {
    VisionSpec spec = std::move(**parse_vision(golden_file(model, "config.json"),
                                               golden_file(model, "preprocessor_config.json"), 32));
    const Status status = limit_image_tokens(max_tokens, spec);
    return status.ok() ? Result<VisionSpec>(std::move(spec)) : Result<VisionSpec>(status);
  };
  EXPECT_EQ(limited("qwen2_vl", 0)->max_embeddings(), 64);
  EXPECT_EQ(limited("qwen2_vl", 10)->max_embeddings(), 10);
  EXPECT_EQ(limited("qwen2_vl", 100)->max_embeddings(), 64);
  EXPECT_EQ(limited("llava_next", 60)->grids.size(), 2u) << "1 x 2 and 2 x 1";
  EXPECT_EQ(limited("llava_next", 52)->grids.size(), 1u) << "1 x 2";
  for (const auto& [model, least] : {std::pair{"llava_next", 52}, {"gemma3", 9}, {"smolvlm", 4}}) {
    EXPECT_TRUE(limited(model, least).ok()) << model;
    EXPECT_EQ(
        limited(model, least - 1).status().message(),
        fmt::format("--max-image-tokens: expected at least {}, those of this model's smallest "
                    "picture, got {}",
                    least, least - 1));
  }
}

TEST(VisionConfig, TextAlone) {
  const auto vision = parse_vision(R"({"model_type": "llama"})", "", 32);
  ASSERT_TRUE(vision.ok());
  EXPECT_FALSE(vision->has_value());
  const auto without_tower = parse_vision(R"({"model_type": "qwen3_vl"})", "", 32);
  ASSERT_TRUE(without_tower.ok());
  EXPECT_FALSE(without_tower->has_value());
}

TEST(VisionConfig, ErrorsNameTheField) {
  for (
      const auto& [config, part] :
      {std::pair{R"({"model_type": "llava"})", "vision_config"},
       {R"({"model_type": "llava", "vision_config": {"model_type": "a_tower"}})", "a_tower"},
       {R"({"model_type": "llava", "vision_config": {"model_type": "pixtral"}})",
        "vision_feature_layer"},
       {R"({"model_type": "llava", "vision_config": {"patch_size": 0}})", "patch_size"},
       {R"({"model_type": "llava", "vision_config": {"patch_size": 7, "image_size": 30}})",
        "image_size"},
       {R"({"model_type": "llava", "vision_config": {"hidden_size": 10, "num_attention_heads": 3}})",
        "hidden_size"},
       {R"({"model_type": "llava", "vision_feature_layer": 99, "vision_config": {}})",
        "vision_feature_layer"},
       {R"({"model_type": "llava", "vision_config": {"hidden_act": "tanh"}})", "hidden_act"},
       {"[]", "an object"},
       {"{", "not valid JSON"}}) {
    const auto vision = parse_vision(config, "", 32);
    ASSERT_FALSE(vision.ok()) << config;
    EXPECT_NE(vision.status().message().find(part), std::string::npos) << vision.status().message();
  }
  const auto vision = parse_vision(R"({"model_type": "llava", "vision_config": {}})",
                                   R"({"image_std": [0.5, 0, 0.5]})", 32);
  EXPECT_NE(vision.status().message().find("image_std"), std::string::npos);
}

}  // namespace
}  // namespace quire
