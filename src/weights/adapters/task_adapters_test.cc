#include "weights/adapters/task_adapters.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_folder.h"
#include "weights/testing/lora_test_support.h"

namespace quire {
namespace {

using test::AdapterTensor;

const std::string kTasks = R"("lora_adaptations":["query","match"],"lora_rank":2,"lora_alpha":3,)"
                           R"("task_instructions":{"query":"find: "})";
const std::string kLinear = "roberta.encoder.layers.0.mlp.fc1";
const std::string kWordsName = "roberta.embeddings.word_embeddings";
const std::string kTypesName = "roberta.embeddings.token_type_embeddings";

AdapterTensor part(const std::string& module, const std::string& name, std::vector<int64_t> shape,
                   std::vector<float> values = {}) {
  return {module + ".parametrizations.weight." + name, std::move(shape), std::move(values)};
}

// Returns a linear [3, 2], a table of 4 words and one of a single type, both of width 2.
std::vector<AdapterTensor> all_tensors() {
  return {part(kLinear, "original", {3, 2}),
          part(kLinear, "0.lora_A", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}),
          part(kLinear, "0.lora_B", {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
          part(kWordsName, "original", {4, 2}),
          part(kWordsName, "0.lora_A", {2, 4, 2},
               {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
          part(kWordsName, "0.lora_B", {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}),
          part(kTypesName, "original", {1, 2}),
          part(kTypesName, "0.lora_A", {2, 1, 2}, {20, 21, 22, 23}),
          part(kTypesName, "0.lora_B", {2, 2, 2}, {30, 31, 32, 33, 34, 35, 36, 37}),
          part("roberta.pooler.dense", "0.lora_A", {9})};
}

class TaskAdaptersTest : public ::testing::Test {
 protected:
  Result<LoraFiles> open(const std::string& task, const std::string& config,
                         const std::vector<AdapterTensor>& tensors) {
    std::ofstream(folder_ / "config.json") << "{" << config << "}";
    std::ofstream(folder_ / "model.safetensors", std::ios::binary) << test::safetensors_of(tensors);
    return LoraFiles::open(task_adapter_path(folder_.path().string(), task));
  }
  std::string error(const std::string& config, const std::vector<AdapterTensor>& tensors,
                    const std::string& task = "match") {
    return std::string(open(task, config, tensors).status().message());
  }
  // Returns the tensors, with another shape for the one called `name`.
  static std::vector<AdapterTensor> reshaped(const std::string& name, std::vector<int64_t> shape) {
    std::vector<AdapterTensor> tensors = all_tensors();
    for (AdapterTensor& tensor : tensors) {
      if (tensor.name == name) tensor = {name, shape};
    }
    return tensors;
  }

  test::TempFolder folder_;
};

std::vector<float> floats_of(const RawTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

TEST_F(TaskAdaptersTest, OneTaskIsAnAdapter) {
  const auto files = open("match", kTasks, all_tensors());
  ASSERT_TRUE(files.ok()) << files.status().message();
  ASSERT_EQ(files->modules().size(), 2u);
  const LoraModule& table = files->modules()[0];
  EXPECT_EQ(table.name, kWordsName);
  EXPECT_TRUE(table.is_embedding);
  EXPECT_EQ(table.rank, 4) << "those of words and of the type";
  EXPECT_EQ(table.scale, 1.5f);
  EXPECT_EQ(floats_of(*table.a),
            (std::vector<float>{8, 10, 12, 14, 9, 11, 13, 15, 22, 22, 22, 22, 23, 23, 23, 23}));
  EXPECT_EQ(floats_of(*table.b), (std::vector<float>{4, 6, 34, 36, 5, 7, 35, 37}));
  const LoraModule& linear = files->modules()[1];
  EXPECT_EQ(linear.name, kLinear);
  EXPECT_EQ(linear.rank, 2);
  EXPECT_EQ(linear.scale, 1.5f);
  EXPECT_EQ(floats_of(*linear.a), (std::vector<float>{5, 6, 7, 8}));
  EXPECT_EQ(floats_of(*linear.b), (std::vector<float>{7, 8, 9, 10, 11, 12}));
  const auto other = open("query", kTasks, all_tensors());
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_NE(other->digest(), files->digest());
}

TEST_F(TaskAdaptersTest, ConfigurationIsChecked) {
  EXPECT_EQ(read_task_adapters(ModelFiles::from_memory({}))->names.size(), 0u);
  const auto expect = [&](const std::string& config, const std::string& expected) {
    EXPECT_NE(error(config, all_tensors()).find(expected), std::string::npos)
        << error(config, all_tensors());
  };
  expect(R"("lora_adaptations":null)", "expected match among them, got none");
  expect(R"("lora_adaptations":["query"])", "expected match among them, got query");
  expect(R"("lora_adaptations":["match",""])", "lora_adaptations: expected names");
  expect(R"("lora_adaptations":["match","match"])", "expected different names, got match twice");
  expect(R"("lora_adaptations":["match"],"lora_rank":0)", "lora_rank: expected 1 to 512, got 0");
  expect(R"("lora_adaptations":["match"],"lora_rank":2.5)",
         "lora_rank: expected 1 to 512, got 2.5");
  expect(R"("lora_adaptations":["match"],"lora_alpha":1e300)", "lora_alpha: expected at most");
  expect(R"("lora_adaptations":["match"],"task_instructions":{"match":")" + std::string(5000, 'x') +
             R"("})",
         "task_instructions: expected at most 4096 bytes, got 5000");
  expect(R"("lora_adaptations":["match","b","c"],"lora_rank":2)",
         "expected F32, F16 or BF16 [3, 2, 2], got F32 [2, 2, 2]");
}

TEST_F(TaskAdaptersTest, TensorsThatDoNotFitAreNamed) {
  const auto expect = [&](const std::vector<AdapterTensor>& tensors, const std::string& expected) {
    EXPECT_NE(error(kTasks, tensors).find(expected), std::string::npos) << error(kTasks, tensors);
  };
  expect(reshaped(kLinear + ".parametrizations.weight.0.lora_A", {2, 3, 2}),
         "fc1.parametrizations.weight.0.lora_A': expected F32, F16 or BF16 [2, 2, 2]");
  expect(reshaped(kLinear + ".parametrizations.weight.0.lora_B", {12}), "[2, 3, 2], got F32 [12]");
  expect(reshaped(kLinear + ".parametrizations.weight.original", {6}),
         "fc1.weight': expected a matrix");
  expect(reshaped(kTypesName + ".parametrizations.weight.original", {2, 2}),
         "token_type_embeddings.weight': expected [1, 2], got [2, 2]");
  expect(reshaped(kWordsName + ".parametrizations.weight.0.lora_A", {2, 2, 4}), "[2, 4, 2]");
  std::vector<AdapterTensor> tensors = all_tensors();
  tensors.erase(tensors.begin() + 2);
  expect(tensors, "no tensor '" + kLinear + ".parametrizations.weight.0.lora_B'");
  tensors = all_tensors();
  tensors.erase(tensors.begin() + 3, tensors.begin() + 6);
  expect(tensors, "expected updates of word_embeddings too");
}

}  // namespace
}  // namespace quire
