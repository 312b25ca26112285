#include "weights/adapters/lora_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"
#include "weights/testing/lora_test_support.h"

namespace quire {
namespace {

using test::AdapterTensor;
using test::read_adapter;
using test::safetensors_of;

const std::string kQ = "base_model.model.model.layers.0.self_attn.q_proj";
const std::string kDown = "base_model.model.model.layers.1.mlp.down_proj";

std::vector<AdapterTensor> plain_tensors() {
  return {{kQ + ".lora_A.weight", {4, 8}},
          {kQ + ".lora_B.weight", {6, 4}},
          {kDown + ".lora_A.weight", {4, 10}},
          {kDown + ".lora_B.weight", {8, 4}}};
}

std::string config_with(const std::string& more) {
  return R"({"peft_type": "LORA", "r": 4, "lora_alpha": 6)" + more + "}";
}

Status status_of(const std::string& config, const std::vector<AdapterTensor>& tensors) {
  const std::string file = safetensors_of(tensors);
  return read_adapter(config, file).status();
}
std::string error_of(const std::string& config,
                     const std::vector<AdapterTensor>& tensors = plain_tensors()) {
  return status_of(config, tensors).message();
}

TEST(LoraFiles, ReadsModulesSortedByName) {
  const std::string config = config_with(""), file = safetensors_of(plain_tensors());
  const auto adapter = read_adapter(config, file);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  ASSERT_EQ(adapter->modules().size(), 2u);
  const LoraModule& q = adapter->modules()[0];
  EXPECT_EQ(q.name, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(q.num_inputs(), 8);
  EXPECT_EQ(q.num_outputs(), 6);
  EXPECT_EQ(q.rank, 4);
  EXPECT_FLOAT_EQ(q.scale, 1.5f);
  EXPECT_EQ(q.bias, nullptr);
  EXPECT_EQ(adapter->modules()[1].name, "model.layers.1.mlp.down_proj");
  EXPECT_EQ(adapter->max_rank(), 4);
  EXPECT_EQ(adapter->num_parameters(), 4 * 8 + 6 * 4 + 4 * 10 + 8 * 4);
}

TEST(LoraFiles, DigestIsOfBothFiles) {
  const std::string config = config_with(""), other = config_with(R"(, "use_rslora": true)");
  const std::string file = safetensors_of(plain_tensors());
  std::vector<AdapterTensor> tensors = plain_tensors();
  tensors[0].values = {1.0f};
  const std::string changed = safetensors_of(tensors);
  const std::string digest = read_adapter(config, file)->digest();
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(read_adapter(config, file)->digest(), digest);
  EXPECT_NE(read_adapter(other, file)->digest(), digest);
  EXPECT_NE(read_adapter(config, changed)->digest(), digest);
}

TEST(LoraFiles, RankStabilizedScale) {
  const std::string config = config_with(R"(, "use_rslora": true)");
  const std::string file = safetensors_of(plain_tensors());
  EXPECT_FLOAT_EQ(read_adapter(config, file)->modules()[0].scale, 6.0f / std::sqrt(4.0f));
}

// Of the patterns that match the end of a name behind a point, the first counts.
TEST(LoraFiles, Patterns) {
  std::vector<AdapterTensor> tensors = plain_tensors();
  tensors[2].shape = {2, 10};
  tensors[3].shape = {8, 2};
  const std::string config = config_with(
      R"(, "rank_pattern": {"own_proj": 3, "down_proj": 2, "mlp.down_proj": 9},
          "alpha_pattern": {"layers\\.0\\..*_proj": 10})");
  const std::string file = safetensors_of(tensors);
  const auto adapter = read_adapter(config, file);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  EXPECT_EQ(adapter->modules()[0].rank, 4);
  EXPECT_FLOAT_EQ(adapter->modules()[0].scale, 10.0f / 4);
  EXPECT_EQ(adapter->modules()[1].rank, 2);
  EXPECT_FLOAT_EQ(adapter->modules()[1].scale, 6.0f / 2);
}

TEST(LoraFiles, BiasIsThereWhenSaid) {
  std::vector<AdapterTensor> tensors = plain_tensors();
  tensors.push_back({kQ + ".lora_B.bias", {6}});
  EXPECT_NE(error_of(config_with(""), tensors).find("lora_bias"), std::string::npos);
  EXPECT_NE(error_of(config_with(R"(, "lora_bias": true)"), tensors).find("down_proj"),
            std::string::npos);
  tensors.push_back({kDown + ".lora_B.bias", {8}});
  EXPECT_EQ(error_of(config_with(R"(, "lora_bias": true)"), tensors), "");
}

TEST(LoraFiles, HarmlessFieldsAreAccepted) {
  EXPECT_EQ(error_of(config_with(
                R"(, "task_type": "CAUSAL_LM", "lora_dropout": 0.1, "target_modules": ["q_proj"],
                "bias": "none", "init_lora_weights": true, "modules_to_save": null,
                "use_dora": false, "a_later_field": null, "another": {}, "fan_in_fan_out": true)")),
            "");
}

TEST(LoraFiles, FieldsThatChangeTheResultAreRefusedByName) {
  for (const char* field :
       {R"("bias": "all")", R"("init_lora_weights": "pissa")", R"("layer_replication": [[0, 1]])",
        R"("alora_invocation_tokens": [1])", R"("trainable_token_indices": [3])",
        R"("use_qalora": true)", R"("a_later_field": 3)"}) {
    const Status status = status_of(config_with(std::string(", ") + field), plain_tensors());
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << field;
    const std::string text = field;
    EXPECT_NE(status.message().find(text.substr(1, text.find('"', 1) - 1)), std::string::npos)
        << status.message();
  }
}

TEST(LoraFiles, FieldsOfOtherTypesAreRefused) {
  for (const char* config :
       {"[]", "{}", R"({"peft_type": "IA3"})", R"({"peft_type": "LORA", "r": 0})",
        R"({"peft_type": "LORA", "r": 1e9})", R"({"peft_type": "LORA", "r": 1.5})",
        R"({"peft_type": "LORA", "lora_alpha": "x"})", R"({"peft_type": "LORA", "use_rslora": 1})",
        R"({"peft_type": "LORA", "rank_pattern": {"q": -1}})",
        R"({"peft_type": "LORA", "rank_pattern": {"(": 1}})",
        R"({"peft_type": "LORA", "alpha_pattern": 3})",
        R"({"peft_type": "LORA", "target_parameters": [3]})",
        R"({"peft_type": "LORA", "target_parameters": "experts"})",
        R"({"peft_type": "LORA", "ensure_weight_tying": 1})"}) {
    const Status status = status_of(config, plain_tensors());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << config << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
}

TEST(LoraFiles, TensorsMustFitEachOther) {
  const auto with = [](size_t index, AdapterTensor tensor) {
    std::vector<AdapterTensor> tensors = plain_tensors();
    tensors[index] = std::move(tensor);
    return error_of(config_with(""), tensors);
  };
  EXPECT_NE(with(0, {kQ + ".lora_A.weight", {3, 8}}).find("expected shape [4, 8], got [3, 8]"),
            std::string::npos);
  EXPECT_NE(with(1, {kQ + ".lora_B.weight", {6}}).find("expected shape [6, 4], got [6]"),
            std::string::npos);
  EXPECT_NE(with(0, {kQ + ".lora_A.weight", {4}}).find("expected shape"), std::string::npos);
  EXPECT_NE(with(0, {kQ + ".lora_C.weight", {4, 8}}).find("expected base_model.model."),
            std::string::npos);
  EXPECT_NE(with(0, {"lora_A.weight", {4, 8}}).find("expected base_model.model."),
            std::string::npos);
  EXPECT_NE(with(0, {kQ + ".lora_embedding_A", {4, 8}}).find("tensors of both"), std::string::npos);
  EXPECT_NE(with(0, {kQ + ".base_layer.weight", {6, 8}}).find("no lora_A.weight"),
            std::string::npos);
  std::vector<AdapterTensor> half = plain_tensors();
  half.pop_back();
  EXPECT_NE(error_of(config_with(""), half).find("no lora_B.weight"), std::string::npos);
  EXPECT_NE(error_of(config_with(""), {}).find("expected tensors"), std::string::npos);
}

// Reads updates of embeddings, whose base table PEFT saves too, and whole modules.
TEST(LoraFiles, EmbeddingsAndWholeModules) {
  const std::string table = "base_model.model.model.embed_tokens";
  std::vector<AdapterTensor> tensors = plain_tensors();
  tensors.push_back({table + ".lora_embedding_A", {4, 11}});
  tensors.push_back({table + ".lora_embedding_B", {8, 4}});
  tensors.push_back({table + ".base_layer.weight", {11, 8}});
  tensors.push_back({"base_model.model.lm_head.weight", {11, 8}});
  tensors.push_back({"base_model.model.model.norm.weight", {8}});
  tensors.push_back({"base_model.model.model.norm.bias", {8}});
  const std::string config = config_with(R"(, "modules_to_save": ["lm_head", "norm"])");
  const std::string file = safetensors_of(tensors);
  const auto adapter = read_adapter(config, file);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  ASSERT_EQ(adapter->modules().size(), 3u);
  EXPECT_TRUE(adapter->modules()[0].is_embedding);
  EXPECT_EQ(adapter->modules()[0].num_inputs(), 11);
  EXPECT_FALSE(adapter->modules()[1].is_embedding);
  ASSERT_EQ(adapter->whole_modules().size(), 2u);
  EXPECT_EQ(adapter->whole_modules()[0].name, "lm_head");
  EXPECT_EQ(adapter->whole_modules()[0].bias, nullptr);
  EXPECT_NE(adapter->whole_modules()[1].bias, nullptr);
  EXPECT_EQ(adapter->num_whole_elements(), 11 * 8 + 8 + 8);
  EXPECT_NE(error_of(config_with(R"(, "ensure_weight_tying": true)"), tensors)
                .find("ensure_weight_tying"),
            std::string::npos);
  tensors[6].shape = {12, 8};  // the vocabulary was enlarged
  EXPECT_NE(error_of(config, tensors).find("expected shape [11, 8], got [12, 8]"),
            std::string::npos);
}

// Reads updates of parameters that hold the matrices of all experts of a layer. PEFT names the
// first one's module inside the second's.
TEST(LoraFiles, ParametersOfAllExperts) {
  const std::string experts = "base_model.model.model.layers.0.mlp.experts";
  const std::vector<AdapterTensor> tensors = {{experts + ".base_layer.lora_A.weight", {3 * 4, 8}},
                                              {experts + ".base_layer.lora_B.weight", {10, 4 * 3}},
                                              {experts + ".lora_A.weight", {3 * 4, 5}},
                                              {experts + ".lora_B.weight", {8, 4 * 3}}};
  const std::string config = config_with(
      R"(, "target_parameters": ["mlp.experts.gate_up_proj", "experts.down_proj"],
          "peft_version": "0.21.2", "alpha_pattern": {"gate_up_proj": 2})");
  const std::string file = safetensors_of(tensors);
  const auto adapter = read_adapter(config, file);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  EXPECT_EQ(adapter->config().peft_version(), 21);
  for (const LoraModule& module : adapter->modules()) {
    EXPECT_EQ(module.num_experts, 3) << module.name;
    EXPECT_EQ(module.rank, 4);
    EXPECT_EQ(module.parameters,
              (std::vector<std::string>{"model.layers.0.mlp.experts.gate_up_proj",
                                        "model.layers.0.mlp.experts.down_proj"}));
  }
  EXPECT_EQ(adapter->max_rank(), 4);
  std::vector<AdapterTensor> odd = tensors;
  odd[0].shape = {7, 8};
  EXPECT_NE(error_of(config, odd).find("expected a multiple of rank 4"), std::string::npos);
  EXPECT_NE(error_of(config_with(""), tensors).find("expected shape [4, 5], got [12, 5]"),
            std::string::npos);
}

TEST(LoraFiles, MagnitudesAreThereWithDora) {
  const std::string config = config_with(R"(, "use_dora": true)");
  std::vector<AdapterTensor> tensors = plain_tensors();
  EXPECT_NE(error_of(config, tensors).find("use_dora is true, but the file has no magnitudes"),
            std::string::npos);
  tensors.push_back({kQ + ".lora_magnitude_vector", {6}});
  tensors.push_back({kDown + ".lora_magnitude_vector.weight", {8}});
  const std::string file = safetensors_of(tensors);
  const auto adapter = read_adapter(config, file);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  EXPECT_TRUE(adapter->config().has_magnitudes());
  EXPECT_EQ(adapter->modules()[0].magnitude->shape, std::vector<int64_t>{6});
  EXPECT_EQ(adapter->modules()[1].magnitude->shape, std::vector<int64_t>{8});
  EXPECT_NE(error_of(config_with(""), tensors).find("use_dora is false"), std::string::npos);
  EXPECT_NE(error_of(config_with(R"(, "use_dora": true, "lora_bias": true)"), tensors)
                .find("expected lora_bias or use_dora, got both"),
            std::string::npos);
  tensors.back().shape = {7};
  EXPECT_NE(error_of(config, tensors).find("expected shape [8], got [7]"), std::string::npos);
}

TEST(LoraFiles, FoldersThatAreNoAdapters) {
  namespace fs = std::filesystem;
  const test::TempFolder temp;
  const fs::path dir = temp / "adapter";
  EXPECT_EQ(LoraFiles::open(dir.string()).status().code(), StatusCode::kNotFound);
  fs::create_directories(dir);
  EXPECT_EQ(LoraFiles::open(dir.string()).status().code(), StatusCode::kNotFound);
  std::ofstream(dir / "adapter_config.json") << config_with("");
  EXPECT_NE(LoraFiles::open(dir.string()).status().message().find("adapter_model.safetensors"),
            std::string::npos);
  std::ofstream(dir / "adapter_model.bin") << "pickle";
  EXPECT_EQ(LoraFiles::open(dir.string()).status().code(), StatusCode::kUnimplemented);
  std::ofstream(dir / "adapter_model.safetensors") << safetensors_of(plain_tensors());
  EXPECT_TRUE(LoraFiles::open(dir.string()).ok());
  EXPECT_EQ(LoraFiles::open((dir / "adapter_config.json").string()).status().code(),
            StatusCode::kInvalidArgument);
}

// Reads what PEFT wrote (tools/make_lora_goldens.py), with an update of every linear of the model.
TEST(LoraFiles, ReadsWhatPeftSaves) {
  int num_adapters = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "goldens" / "lora")) {
    const std::string name = entry.path().filename().string();
    const auto adapter = LoraFiles::open(entry.path().string());
    ASSERT_TRUE(adapter.ok()) << adapter.status().message();
    const bool has_bias = name.ends_with(".bias"), is_stabilized = name.ends_with(".rslora");
    EXPECT_EQ(adapter->config().has_bias(), has_bias) << name;
    EXPECT_EQ(adapter->config().is_rank_stabilized(), is_stabilized) << name;
    for (const LoraModule& module : adapter->modules()) {
      EXPECT_EQ(module.bias != nullptr, has_bias) << name << " " << module.name;
      if (!is_stabilized) continue;
      const int64_t rank = module.name.ends_with(".k_proj")      ? 1
                           : module.name.ends_with(".down_proj") ? 6
                                                                 : 3;
      const float alpha = module.name.ends_with(".q_proj") ? 9.0f : 5.0f;
      EXPECT_EQ(module.rank, rank) << name << " " << module.name;
      EXPECT_FLOAT_EQ(module.scale, alpha / std::sqrt(static_cast<float>(rank))) << module.name;
    }
    ++num_adapters;
  }
  EXPECT_GE(num_adapters, 10);
}

}  // namespace
}  // namespace quire
