// Adapters in the C++ API: LLM::load_adapter and the calls that name an adapter.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "quire/llm.h"
#include "tests/support/temp_folder.h"
#include "weights/testing/lora_test_support.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class LlmAdapters : public ::testing::Test {
 protected:
  void SetUp() override {
    write("one", 1);
    write("two", 2);
    params_.max_tokens = 12;
    params_.temperature = 0;
    params_.ignore_eos = true;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Writes an adapter of the built-in model's first down_proj, whose shape is [256, 512].
  void write(const std::string& name, uint32_t seed) const {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    const auto tensor = [&](const std::string& part, int64_t rows, int64_t columns) {
      test::AdapterTensor out{
          "base_model.model.model.layers.0.mlp.down_proj.lora_" + part + ".weight",
          {rows, columns}};
      for (int64_t i = 0; i < rows * columns; ++i) out.values.push_back(value(random));
      return out;
    };
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "adapter_config.json")
        << R"({"peft_type":"LORA","r":4,"lora_alpha":4})";
    std::ofstream(folder_ / name / "adapter_model.safetensors", std::ios::binary)
        << test::safetensors_of({tensor("A", 4, 512), tensor("B", 256, 4)});
  }

  std::string text(LLM& llm, const std::string& adapter) {
    auto outputs = llm.generate({"Once upon a time"}, params_, 1, {}, adapter);
    if (!outputs.ok()) return outputs.status().message();
    const auto streamed = llm.stream("Once upon a time", params_, nullptr, {}, adapter);
    EXPECT_TRUE(streamed.ok() && streamed->choices[0].text == (*outputs)[0].choices[0].text);
    return (*outputs)[0].choices[0].text;
  }

  const test::TempFolder folder_;
  SamplingParams params_;
};

TEST_F(LlmAdapters, AreLoadedNamedReplacedAndUnloaded) {
  auto loaded = LLM::load({.max_adapters = 2, .max_lora_rank = 4});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  LLM& llm = **loaded;
  const std::string plain = text(llm, "");
  ASSERT_TRUE(llm.load_adapter("a", path("one")).ok());
  const std::string one = text(llm, "a");
  EXPECT_NE(one, plain);
  ASSERT_TRUE(llm.load_adapter("a", path("two")).ok());
  const std::string two = text(llm, "a");
  EXPECT_NE(two, one);
  ASSERT_TRUE(llm.load_adapter("b", path("one")).ok());
  EXPECT_EQ(text(llm, "b"), one);
  EXPECT_EQ(text(llm, ""), plain);
  EXPECT_EQ(llm.adapters(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(llm.load_adapter("c", path("one")).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(llm.load_adapter("a", path("none")).code(), StatusCode::kNotFound);
  EXPECT_EQ(text(llm, "a"), two);
  EXPECT_TRUE(llm.unload_adapter("a").ok());
  EXPECT_EQ(llm.unload_adapter("a").code(), StatusCode::kNotFound);
  EXPECT_EQ(llm.generate({"x"}, params_, 1, {}, "a").status().code(), StatusCode::kNotFound);
}

TEST_F(LlmAdapters, NeedRoom) {
  auto none = LLM::load({});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ((*none)->load_adapter("a", path("one")).code(), StatusCode::kUnimplemented);
  auto low = LLM::load({.max_adapters = 1, .max_lora_rank = 3});
  ASSERT_TRUE(low.ok());
  const Status status = (*low)->load_adapter("a", path("one"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("max-lora-rank"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace quire
