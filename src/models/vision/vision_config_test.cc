#include "models/vision/vision_config.h"

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

// The configuration of the released model leaves out what CLIP's defaults say.
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

// What the configuration of Qwen/Qwen2.5-VL-7B-Instruct says.
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
    // Of a key that comes twice the last one counts.
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
