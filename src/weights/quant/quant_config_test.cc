#include "weights/quant/quant_config.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(NamePattern, MatchesAsItsKindSays) {
  EXPECT_TRUE(NamePattern::exact("a.b").matches("a.b"));
  EXPECT_FALSE(NamePattern::exact("a.b").matches("a.b.c"));
  EXPECT_TRUE(NamePattern::part("lm_head").matches("model.lm_head"));
  const auto regex = NamePattern::regex("model\\.layers\\.[0-3]\\.");
  ASSERT_TRUE(regex.ok());
  EXPECT_TRUE(regex->matches("model.layers.2.mlp.up_proj"));
  EXPECT_FALSE(regex->matches("model.layers.4.mlp.up_proj"));
  EXPECT_FALSE(regex->matches("x.model.layers.2.mlp")) << "from the start";
}

TEST(NamePattern, RunawayExpressionsEnd) {
  const auto regex = NamePattern::regex("(a+)+$");
  ASSERT_TRUE(regex.ok());
  EXPECT_FALSE(regex->matches(std::string(5000, 'a') + "b"));
  EXPECT_FALSE(NamePattern::regex("(").ok());
  EXPECT_FALSE(NamePattern::regex(std::string(10000, 'a')).ok());
}

TEST(QuantConfig, NamesGoBeforeExpressionsAndBothBeforeClasses) {
  const auto config = QuantConfig::parse(
      R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {
          "a": {"targets": ["Linear"], "weights": {"num_bits": 4, "strategy": "group", "group_size": 64}},
          "b": {"targets": ["re:.*down_proj$"], "weights": {"num_bits": 8, "strategy": "channel"}},
          "c": {"targets": ["model.layers.0.mlp.down_proj"],
                "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}})",
      "config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->scheme("model.layers.0.self_attn.q_proj")->group_size, 64);
  EXPECT_EQ(config->scheme("model.layers.1.mlp.down_proj")->bits, 8);
  EXPECT_FALSE(config->scheme("model.layers.1.mlp.down_proj")->is_float);
  EXPECT_TRUE(config->scheme("model.layers.0.mlp.down_proj")->is_float);
  EXPECT_EQ(config->description(),
            "compressed-tensors, int4 in groups of 64, other schemes for some modules");
}

TEST(QuantConfig, GptqModulesOfTheirOwn) {
  const auto config = QuantConfig::parse(
      R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true, "desc_act": false,
          "dynamic": {"-:.*lm_head": {}, "+:.*\\.1\\..*down": {"bits": 8, "group_size": 32},
                      ".*gate": {"sym": false}}})",
      "config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->scheme("model.layers.0.mlp.down_proj")->bits, 4);
  EXPECT_EQ(config->scheme("model.layers.1.mlp.down_proj")->bits, 8);
  EXPECT_EQ(config->scheme("model.layers.1.mlp.down_proj")->group_size, 32);
  EXPECT_FALSE(config->scheme("model.layers.1.mlp.gate_proj")->symmetric);
  EXPECT_TRUE(config->scheme("model.layers.1.mlp.gate_proj")->zeros_less_one);
}

TEST(QuantConfig, RefusesByName) {
  const auto error = [](std::string_view text) {
    const auto config = QuantConfig::parse(text, "config.json");
    return config.ok() ? std::string() : config.status().message();
  };
  EXPECT_NE(error(R"({"quant_method": "bitsandbytes"})").find("got 'bitsandbytes'"),
            std::string::npos);
  EXPECT_EQ(error(R"({"quant_method": "a\nb"})").find('\n'), std::string::npos) << "one line";
  EXPECT_NE(error(R"({"quant_method": "compressed-tensors", "format": "marlin-24"})")
                .find("got 'marlin-24'"),
            std::string::npos);
  EXPECT_NE(error(R"({"quant_method": "compressed-tensors"})").find("config_groups"),
            std::string::npos);
  EXPECT_NE(error(R"({"quant_method": "gptq"})").find("bits: expected an integer, got nothing"),
            std::string::npos);
  EXPECT_NE(error(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"(": {}}})")
                .find("regular expression"),
            std::string::npos);
  EXPECT_NE(error("[1]").find("expected an object"), std::string::npos);
  EXPECT_NE(error("{").find("not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace quire
