#include "facade/model_shape_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "facade/images/picture_sizes.h"
#include "facade/step_costs.h"
#include "models/model_config.h"
#include "roofline/calibrate/step_log.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

constexpr std::string_view kConfig = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5,
  "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 512,
  "max_position_embeddings": 512, "torch_dtype": "float32"})";

class ModelShapeFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  std::string write(const std::string& name, std::string_view text) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  const test::TempFolder temp_;
  const std::filesystem::path folder_ = temp_ / "tiny-llama";
};

TEST_F(ModelShapeFile, FolderAndFileAreNamedAfterThemselves) {
  write("config.json", kConfig);
  for (const std::string& path : {folder_.string(), (folder_ / "config.json").string()}) {
    const Result<ModelShape> shape = read_model_shape(path);
    ASSERT_TRUE(shape.ok()) << shape.status().message();
    EXPECT_EQ(shape->name, "tiny-llama");
    EXPECT_EQ(shape->num_layers(), 5);
  }
  EXPECT_EQ(read_model_shape(write("other.json", kConfig))->name, "other");
}

TEST_F(ModelShapeFile, AStepLogKeepsTheFormatsThatWereServed) {
  ModelShape served = parse_model_shape(kConfig).value();
  served.name = "served";
  served.weights = {4.5, MathType::kInt8};
  served.activations = {32, MathType::kF32};
  const std::string log = format_header({.model = served, .hardware = "none"}) + "not read\n";
  const Result<ModelShape> shape = read_model_shape(write("steps.jsonl", log));
  ASSERT_TRUE(shape.ok()) << shape.status().message();
  EXPECT_EQ(to_json(*shape), to_json(served));
}

// A tower has as many rows as in the engine, and a picture is cut as a server cuts it.
TEST_F(ModelShapeFile, ReadsTowersAndTheirPictures) {
  const auto goldens = test::source_dir() / "tests" / "goldens";
  const auto folder = [&](const std::string& name) { return (goldens / "vision" / name).string(); };
  const ModelShape qwen = read_model_shape(folder("qwen2_5_vl")).value();
  EXPECT_EQ(qwen.tower.rows_per_embedding, 4);
  ASSERT_EQ(qwen.tower.encoder.size(), 2u) << "layers with windows and layers without";
  EXPECT_GT(qwen.tower.patch_elements, 0);
  EXPECT_GT(qwen.tower.projector_elements, 0);
  EXPECT_FALSE(read_model_shape(folder("mllama")).value().tower.any()) << "its rows are a source";
  EXPECT_TRUE(read_model_shape(folder("gemma3")).value().tower.is_bidirectional);
  for (const std::string name : {"qwen2_5_vl", "gemma3", "llava_next", "internvl"}) {
    const auto items = picture_items(folder(name), 120, 90);
    ASSERT_TRUE(items.ok()) << name << ": " << items.status().message();
    EXPECT_GE(items->size(), name == "internvl" ? 2u : 1u) << name;
    const ModelShape shape = read_model_shape(folder(name)).value();
    for (const int32_t item : *items) EXPECT_LE(item, shape.tower.max_embeddings) << name;
  }
  EXPECT_EQ(picture_items((goldens / "models" / "llama").string(), 8, 8).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE(picture_items(folder("qwen2_5_vl"), 4000, 1).ok()) << "too narrow";
}

// Serving and simulating a model must read its configuration in the same way.
TEST_F(ModelShapeFile, AgreesWithTheDecoderAboutEveryFamily) {
  const auto goldens = test::source_dir() / "tests" / "goldens";
  std::vector<std::filesystem::directory_entry> entries;
  for (const char* kind : {"models", "vision", "seq2seq", "speech"}) {
    for (const auto& entry : std::filesystem::directory_iterator(goldens / kind)) {
      if (std::filesystem::exists(entry.path() / "config.json")) entries.push_back(entry);
    }
  }
  ASSERT_GT(entries.size(), 80u);
  for (const auto& entry : entries) {
    SCOPED_TRACE(entry.path().string());
    const std::string text = test::read_file(entry.path() / "config.json");
    const auto config = parse_model_config(text);
    ASSERT_TRUE(config.ok()) << config.status().message();
    ModelPlan plan;
    const int64_t max_len = std::min<int64_t>(128, config->max_model_len());
    plan.spec = make_decoder_spec(*config, max_len, DType::kBF16).value();
    plan.kv = make_kv_layout(plan.spec, 16, DType::kBF16);
    const ModelShape served = cost_shape("served", plan);
    const ModelShape read = read_model_shape(entry.path().string()).value();
    EXPECT_EQ(read.hidden_size, served.hidden_size);
    EXPECT_EQ(read.vocab_size, served.vocab_size);
    EXPECT_EQ(read.tied_head, served.tied_head);
    ASSERT_EQ(read.groups.size(), served.groups.size());
    for (size_t g = 0; g < read.groups.size(); ++g) {
      EXPECT_EQ(read.groups[g].num_layers, served.groups[g].num_layers);
      EXPECT_EQ(read.groups[g].attention, served.groups[g].attention);
      EXPECT_EQ(read.groups[g].ffn, served.groups[g].ffn);
      EXPECT_EQ(read.groups[g].state, served.groups[g].state);
      EXPECT_EQ(read.groups[g].more_elements, served.groups[g].more_elements);
      EXPECT_EQ(read.groups[g].table_elements, served.groups[g].table_elements);
    }
  }
}

// The roofline leaves out norms, scales and biases: unless a model is tiny, they are nothing beside
// its matrices.
int64_t num_vector_parameters(const DecoderSpec& spec) {
  int64_t sum = spec.block.final_norm ? spec.hidden_size : 0;
  if (spec.layer_inputs.any()) sum += spec.layer_inputs.size;
  for (const LayerSpec& layer : spec.layers) {
    sum += layer.num_norms(spec.block) * spec.hidden_size;
    if (spec.layer_inputs.any()) sum += spec.hidden_size;
    if (spec.layer_scale) sum += 1;
    if (layer.attention.qk_norm && !layer.attention.plain_qk_norm)
      sum += (layer.attention.has_own_kv() ? 2 : 1) * layer.attention.head_dim;
    if (layer.attention.qkv_bias) sum += layer.attention.qkv_rows();
    if (layer.attention.o_bias) sum += spec.hidden_size;
    const ExpertsSpec& experts = layer.ffn.experts;
    if (experts.own_norms) sum += 4 * spec.hidden_size;
    if (experts.has_scale) sum += experts.router.num_experts;
  }
  return sum;
}

// Side branches, streams, inputs of layers, shared keys and values, and blocks of doubled width.
TEST_F(ModelShapeFile, CountsWhatIsBesideAttentionAndFeedForward) {
  const auto goldens = test::source_dir() / "tests" / "goldens" / "models";
  int num_models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
    const std::string name = entry.path().filename();
    const bool has_more = name.starts_with("gemma3n") || name.starts_with("gemma4");
    if (!has_more || !std::filesystem::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(name);
    const auto config = parse_model_config(test::read_file(entry.path() / "config.json")).value();
    const DecoderSpec spec = make_decoder_spec(config, 128, DType::kBF16).value();
    const ModelShape shape = read_model_shape(entry.path().string()).value();
    EXPECT_EQ(shape.num_parameters(), spec.num_parameters() - num_vector_parameters(spec));
    ++num_models;
  }
  EXPECT_GE(num_models, 2);
}

// Packed weights of two bits, and sizes in nested objects.
TEST_F(ModelShapeFile, ReadsBitNetAndDbrx) {
  const Result<ModelShape> bitnet = read_model_shape(
      (test::source_dir() / "tests" / "goldens" / "quant_models" / "bitnet_bitnet").string());
  ASSERT_TRUE(bitnet.ok()) << bitnet.status().message();
  EXPECT_DOUBLE_EQ(bitnet->weights.bits, 2.125);
  EXPECT_DOUBLE_EQ(bitnet->head_weights.bits, 16.0);
  const Result<ModelShape> dbrx =
      read_model_shape((test::source_dir() / "tests" / "goldens" / "models" / "dbrx").string());
  ASSERT_TRUE(dbrx.ok()) << dbrx.status().message();
  EXPECT_EQ(dbrx->groups.front().ffn.num_experts, 4);
  EXPECT_EQ(dbrx->groups.front().attention.num_kv_heads, 2);
}

TEST_F(ModelShapeFile, NothingIsTheBuiltInModel) {
  ASSERT_TRUE(read_model_shape("").ok());
  EXPECT_GT(read_model_shape("")->num_parameters(), 0);
}

TEST_F(ModelShapeFile, ErrorsNameTheFile) {
  const std::string bad = write("bad.json", "{");
  const std::string fake = write("fake.gguf", "GGUF, it says");
  for (const std::string& path : {bad, fake, std::string("/no/such/model")}) {
    const Result<ModelShape> shape = read_model_shape(path);
    ASSERT_FALSE(shape.ok()) << path;
    const std::string name = std::filesystem::path(path).filename();
    EXPECT_NE(shape.status().message().find(name), std::string::npos) << shape.status().message();
  }
}

// The same weights as GGUF and in the Hugging Face layout have one shape, except that this GGUF
// file has the tied head as a tensor of its own.
TEST_F(ModelShapeFile, GgufAgreesWithConfigJson) {
  QUIRE_REQUIRE_SHARED(models, "models/stories260K");
  const Result<ModelShape> gguf = read_model_shape(models / "stories260K.gguf");
  const Result<ModelShape> config = read_model_shape(models / "hf_f32");
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(config->tied_head);
  EXPECT_FALSE(gguf->tied_head);
  EXPECT_EQ(gguf->num_parameters(),
            config->num_parameters() + config->vocab_size * config->hidden_size);
  EXPECT_EQ(gguf->num_layers(), config->num_layers());
  EXPECT_EQ(gguf->groups[0].attention, config->groups[0].attention);
  EXPECT_EQ(gguf->groups[0].ffn, config->groups[0].ffn);
  EXPECT_EQ(gguf->weights.bits, 32);
}

}  // namespace
}  // namespace quire
