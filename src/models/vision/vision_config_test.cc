#include "models/vision/vision_config.h"

#include <gtest/gtest.h>

#include "tests/support/test_data.h"

namespace quire {
namespace {

std::string llava_config(std::string_view name) {
  return test::read_file(test::source_dir() / "tests" / "goldens" / "vision" / "llava" /
                         std::string(name));
}

TEST(VisionConfig, Llava) {
  const auto vision =
      parse_vision(llava_config("config.json"), llava_config("preprocessor_config.json"), 32);
  ASSERT_TRUE(vision.ok() && vision->has_value()) << vision.status().message();
  EXPECT_EQ((*vision)->image_size, 30);
  EXPECT_EQ((*vision)->num_embeddings(), 25);
  EXPECT_EQ((*vision)->num_rows(), 26);
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
  EXPECT_EQ((*vision)->num_embeddings(), 576);
  EXPECT_EQ((*vision)->encoder.layers.size(), 23u);
  EXPECT_EQ((*vision)->encoder.layers[0].ffn.activation, Activation::kQuickGelu);
  EXPECT_EQ((*vision)->placeholder, 32000);
}

TEST(VisionConfig, TextAlone) {
  const auto vision = parse_vision(R"({"model_type": "llama"})", "", 32);
  ASSERT_TRUE(vision.ok());
  EXPECT_FALSE(vision->has_value());
}

TEST(VisionConfig, ErrorsNameTheField) {
  for (
      const auto& [config, part] :
      {std::pair{R"({"model_type": "llava"})", "vision_config"},
       {R"({"model_type": "llava", "vision_config": {"model_type": "pixtral"}})", "pixtral"},
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
