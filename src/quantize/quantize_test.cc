// Rounding is compared with plain arithmetic, written checkpoints are read back, and runs are
// interrupted.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "quantize/activation_aware.h"
#include "quantize/evaluate.h"
#include "quantize/quantize_checkpoint.h"
#include "quantize/rounding.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

TEST(Rounding, EveryE4m3CodeIsItsOwnNearest) {
  for (int code = 0; code < 256; ++code) {
    const float value = from_e4m3(static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(to_e4m3(value), code) << value;
  }
  EXPECT_EQ(to_e4m3(1e9f), 0x7e);
  EXPECT_EQ(to_e4m3(-1e9f), 0xfe);
  EXPECT_EQ(to_e4m3(std::nanf("")), 0x7f);
}

TEST(Rounding, E4m3RoundsToTheNearestAndTiesToEven) {
  for (int code = 0; code < 0x7e; ++code) {
    const float low = from_e4m3(static_cast<uint8_t>(code));
    const float high = from_e4m3(static_cast<uint8_t>(code + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(to_e4m3(middle), code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(to_e4m3(std::nextafter(middle, 1e9f)), code + 1);
  }
}

TEST(Rounding, GroupsStayWithinHalfAStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> row(96), scales(3);
  std::vector<uint8_t> codes(96);
  for (float& x : row) x = normal(random);
  for (size_t i = 64; i < 96; ++i) row[i] = 0.0f;
  round_to_groups(row, 4, 32, DType::kBF16, codes, scales);
  for (size_t i = 0; i < row.size(); ++i) {
    const float value = (static_cast<float>(codes[i]) - 8.0f) * scales[i / 32];
    EXPECT_LE(std::fabs(value - row[i]), 0.51f * scales[i / 32]);
    EXPECT_LE(codes[i], 15);
  }
  EXPECT_EQ(scales[2], 1.0f) << "a group of zeros";
  EXPECT_EQ(codes[70], 8);
}

TEST(Rounding, WordsHoldCodesEndToEnd) {
  const std::vector<uint8_t> codes{1, 7, 2, 0, 5, 6, 3, 4, 7, 1, 6};
  std::vector<uint32_t> words(2);
  pack_words(codes, 3, words);
  for (size_t i = 0; i < codes.size(); ++i) {
    uint32_t code = 0;
    for (size_t b = 0; b < 3; ++b) {
      const size_t bit = i * 3 + b;
      code |= (words[bit / 32] >> (bit % 32) & 1u) << b;
    }
    EXPECT_EQ(code, codes[i]) << i;
  }
}

struct Source {
  ModelFiles files;
  TensorSource tensors;
  ModelConfig config;

  static Source open(const std::string& name) {
    auto files = ModelFiles::open((test::source_dir() / "tests/goldens/models" / name).string());
    QUIRE_CHECK(files.ok());
    auto tensors = TensorSource::open(*files);
    QUIRE_CHECK(tensors.ok());
    auto config = read_model_config(*files, *tensors);
    QUIRE_CHECK(config.ok());
    return {std::move(*files), std::move(*tensors), std::move(*config)};
  }
};

Result<QuantizeSummary> quantize(const Source& source, const test::TempFolder& folder,
                                 std::string_view scheme, int64_t shard_bytes = int64_t{1} << 30) {
  ThreadTeam team = ThreadTeam::create({.num_threads = 2, .pin = false}).value();
  QuantizeOptions options{.output = folder.string(), .scheme = *parse_write_scheme(scheme)};
  options.shard_bytes = shard_bytes;
  return quantize_checkpoint(source.files, source.tensors, source.config, team, options);
}

std::vector<TokenId> some_tokens() {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(3 + i * 37 % 150);
  return tokens;
}

Result<TextLogits> logits_of(const std::string& path, bool activation_int8 = false) {
  auto files = ModelFiles::open(path);
  if (!files.ok()) return files.status();
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.dtype = "float32";
  options.activation_int8 = activation_int8;
  options.threads = 1;
  options.pin_threads = false;
  options.kv_cache_memory_bytes = int64_t{16} << 20;
  return text_logits(options, some_tokens());
}

// The relative error of logits that the tests allow. Random weights do not damp errors, so that
// rounding each weight by 0.4, 2.6 or 7 % grows to 3, 12 and 41 % (measured).
struct Case {
  const char* scheme;
  double worst_error;
};

class Quantize : public ::testing::TestWithParam<Case> {};

TEST_P(Quantize, WhatIsWrittenIsReadAndClose) {
  for (const char* model : {"llama", "phi3", "gemma2", "llama_bf16_sharded"}) {
    SCOPED_TRACE(model);
    const Source source = Source::open(model);
    const test::TempFolder folder;
    const auto summary = quantize(source, folder, GetParam().scheme);
    ASSERT_TRUE(summary.ok()) << summary.status().message();
    EXPECT_GT(summary->num_modules + static_cast<int64_t>(summary->kept_modules.size()), 0);
    const auto before = logits_of(source.files.source());
    const auto after = logits_of(folder.string());
    ASSERT_TRUE(before.ok()) << before.status().message();
    ASSERT_TRUE(after.ok()) << after.status().message();
    const LogitComparison comparison = compare_logits(*before, *after);
    EXPECT_LE(comparison.relative_error, GetParam().worst_error);
    EXPECT_GT(comparison.relative_error, 0.0) << "something was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Quantize,
                         ::testing::Values(Case{"int8", 0.05}, Case{"int8-weights", 0.03},
                                           Case{"fp8", 0.2}, Case{"int4-g32", 0.6}),
                         [](const auto& info) {
                           std::string name = info.param.scheme;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ActivationAware, ChangesNothingButRounding) {
  for (const char* model : {"llama", "phi3", "gemma2"}) {
    SCOPED_TRACE(model);
    const Source source = Source::open(model);
    ThreadTeam team = ThreadTeam::create({.num_threads = 2, .pin = false}).value();
    const auto inputs = layer_inputs(source.tensors, source.config, some_tokens(), team, {});
    ASSERT_TRUE(inputs.ok()) << inputs.status().message();
    ASSERT_EQ(inputs->size(), static_cast<size_t>(source.config.num_hidden_layers));
    for (const double square : (*inputs)[0].down) EXPECT_GE(square, 0.0);
    const WriteScheme scheme = *parse_write_scheme("int8-weights");
    const auto rescales =
        activation_aware_rescales(source.tensors, source.config, *inputs, team, {.scheme = scheme});
    ASSERT_TRUE(rescales.ok()) << rescales.status().message();
    EXPECT_FALSE(rescales->empty());
    const auto before = logits_of(source.files.source());
    ASSERT_TRUE(before.ok());
    double errors[2] = {};
    for (const bool scaled : {false, true}) {
      const test::TempFolder folder;
      QuantizeOptions options{.output = folder.string(), .scheme = scheme};
      if (scaled) options.rescales = *rescales;
      const auto summary =
          quantize_checkpoint(source.files, source.tensors, source.config, team, options);
      ASSERT_TRUE(summary.ok()) << summary.status().message();
      const auto after = logits_of(folder.string());
      ASSERT_TRUE(after.ok()) << after.status().message();
      errors[scaled ? 1 : 0] = compare_logits(*before, *after).relative_error;
    }
    // The function is the same except for rounding, and wrong factors would change it completely.
    // The stored norms are bfloat16 here, whose rounding is about as large as that of int8.
    EXPECT_LE(errors[1], 2.0 * errors[0] + 0.01);
  }
}

// Codes that stand for integers can be multiplied with int8 activations.
TEST(ActivationsOfInt8, ChangeLogitsALittle) {
  const auto models = test::source_dir() / "tests" / "goldens" / "quant_models";
  for (const char* path : {"gguf_simple_mix_llama/model.gguf", "gptq_llama", "awq_qwen2"}) {
    SCOPED_TRACE(path);
    const auto before = logits_of(models / path);
    const auto after = logits_of(models / path, true);
    ASSERT_TRUE(before.ok()) << before.status().message();
    ASSERT_TRUE(after.ok()) << after.status().message();
    const LogitComparison comparison = compare_logits(*before, *after);
    EXPECT_GT(comparison.relative_error, 1e-4) << "activations were rounded";
    EXPECT_LT(comparison.relative_error, 0.05);
  }
}

TEST(QuantizeFolder, InterruptedRunsAreTakenUpAndNothingIsWrittenOver) {
  const Source source = Source::open("llama");
  const test::TempFolder folder;
  constexpr int64_t kShard = 8 << 10;
  auto whole = quantize(source, folder, "int8", kShard);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_GT(whole->num_shards, 2);
  EXPECT_EQ(whole->num_shards_kept, 0);
  const auto again = quantize(source, folder, "int8", kShard);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find("nothing is written over"), std::string::npos);

  // A run that is killed in its second shard leaves the folder like this.
  const auto before = logits_of(folder.string());
  ASSERT_TRUE(before.ok());
  fs::remove(folder.path() / "config.json");
  const auto second = fmt::format("model-00002-of-{:05}.safetensors", whole->num_shards);
  fs::resize_file(folder.path() / second, 100);
  std::ofstream(folder.path() / "quantize.unfinished.json")
      << R"({"source":")" << source.files.source() << R"(","source_bytes":)" << whole->source_bytes
      << R"(,"to":"int8","method":"rtn","shard_bytes":)" << kShard << "}";
  EXPECT_FALSE(quantize(source, folder, "fp8", kShard).ok()) << "another job";
  const auto resumed = quantize(source, folder, "int8", kShard);
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ(resumed->num_shards_kept, resumed->num_shards - 1);
  const auto after = logits_of(folder.string());
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(before->logits, after->logits);
  EXPECT_FALSE(fs::exists(folder.path() / "quantize.unfinished.json"));
}

TEST(QuantizeFolder, RefusesWhatItCannotQuantize) {
  auto files =
      ModelFiles::open((test::source_dir() / "tests/goldens/quant_models/packed_llama").string());
  ASSERT_TRUE(files.ok());
  auto tensors = TensorSource::open(*files);
  auto config = read_model_config(*files, *tensors);
  ASSERT_TRUE(config.ok());
  const Source source{std::move(*files), std::move(*tensors), std::move(*config)};
  const test::TempFolder folder;
  const auto result = quantize(source, folder, "int8");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("expected float weights, got compressed-tensors"),
            std::string::npos);
  EXPECT_FALSE(parse_write_scheme("int3").ok());
}

}  // namespace
}  // namespace quire
