// Tiny random embedders, rerankers and classifiers: values against transformers
// (tools/make_pooling_goldens.py), and law L4 for pooled outputs.
//
// float32: values within 2e-4 of the oracle's and rows in the same direction (cosine >= 0.99999).
// bfloat16: weights, activations that enter products, and keys and values have 8 bits of mantissa;
// rows stay within a cosine of 0.995 through these undamped random weights.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "exec/testing/pooling_support.h"
#include "weights/adapters/task_adapters.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

using test::cosine;
using test::distance;
using test::Distance;
using test::kGguf;
using test::parse_cases;
using test::pooling_dir;
using test::PoolingCase;
using test::read_cases;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(pooling_dir(""))) {
    names.push_back(entry.path().filename().string());
    if (fs::exists(entry.path() / "model.gguf")) names.push_back(std::string(kGguf) + names.back());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct RunOptions {
  std::string dtype = "float32";
  std::string isa = "auto";
  int threads = 1;
  test::PoolingRun run = {};
  int32_t max_adapters = 0;
};

std::unique_ptr<ModelRunner> load(const std::string& name, const RunOptions& options) {
  const fs::path dir = pooling_dir(name);
  auto files = ModelFiles::open((name.starts_with(kGguf) ? dir / "model.gguf" : dir).string());
  EXPECT_TRUE(files.ok()) << files.status().message();
  auto runner = ModelRunner::create({.files = std::make_shared<ModelFiles>(std::move(*files)),
                                     .dtype = options.dtype,
                                     .isa = options.isa,
                                     .threads = options.threads,
                                     .max_num_seqs = 24,
                                     .kv_cache_memory_bytes = int64_t{4} << 20,
                                     .max_adapters = options.max_adapters});
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  const Status ready = (*runner)->initialize({.num_blocks = 256});
  EXPECT_TRUE(ready.ok()) << ready.message();
  return std::move(*runner);
}

std::vector<PooledOutput> run(ModelRunner& runner, const std::vector<PoolingCase>& cases,
                              const RunOptions& options) {
  return test::run_pooling(runner, cases, options.run);
}

class PoolingGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(PoolingGolden, Float32OnEveryInstructionSet) {
  for (const Isa isa : test::golden_vector_isas()) {
    const RunOptions options{.isa = std::string(to_string(isa)), .run = {.chunk = 13}};
    const auto runner = load(GetParam(), options);
    EXPECT_FALSE(runner->info().generates);
    const std::vector<PoolingCase> cases = read_cases(GetParam(), runner->plan().spec.pooling);
    const Distance worst = distance(cases, run(*runner, cases, options));
    EXPECT_LE(worst.difference, 2e-4) << to_string(isa);
    EXPECT_GE(worst.cosine, 0.99999) << to_string(isa);
    fmt::print("{} {}: difference {:.1e}, 1 - cosine {:.1e}\n", GetParam(), to_string(isa),
               worst.difference, 1 - worst.cosine);
  }
}

TEST_P(PoolingGolden, Bfloat16) {
  const RunOptions options{.dtype = "bfloat16"};
  const auto runner = load(GetParam(), options);
  const std::vector<PoolingCase> cases = read_cases(GetParam(), runner->plan().spec.pooling);
  EXPECT_GE(distance(cases, run(*runner, cases, options)).cosine, 0.995);
}

// A request has the same bits alone, in a crowd of other lengths, in chunks, and on any number of
// threads.
TEST_P(PoolingGolden, SameBitsInAnyCompany) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    std::vector<PooledOutput> first;
    for (const int threads : {1, 3}) {
      for (const bool together : {false, true}) {
        for (const int32_t chunk : {5, 1 << 20}) {
          const RunOptions options{
              .dtype = dtype, .threads = threads, .run = {.chunk = chunk, .together = together}};
          const auto runner = load(GetParam(), options);
          const auto cases = read_cases(GetParam(), runner->plan().spec.pooling);
          const std::vector<PooledOutput> outputs = run(*runner, cases, options);
          if (first.empty()) first = outputs;
          for (size_t i = 0; i < outputs.size(); ++i) {
            EXPECT_EQ(outputs[i].values, first[i].values)
                << dtype << ", " << threads << " threads, together " << together << ", chunk "
                << chunk << ", case " << i;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PoolingGolden, ::testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

// Matryoshka: a request for fewer dimensions gets the first ones, scaled to length 1 again.
TEST(Pooling, DimensionsAreCutBeforeTheVectorIsNormalized) {
  const auto runner = load("bert_mean", {});
  const auto cases = read_cases("bert_mean", runner->plan().spec.pooling);
  const auto whole = run(*runner, cases, {});
  const auto cut = run(*runner, cases, {.run = {.dimensions = 8}});
  for (size_t i = 0; i < cases.size(); ++i) {
    ASSERT_EQ(cut[i].num_columns, 8);
    double norm = 0.0;
    for (const float x : cut[i].values) norm += double{x} * x;
    EXPECT_NEAR(norm, 1.0, 1e-6);
    EXPECT_GE(cosine(cut[i].values, std::span(whole[i].values).first(8)), 0.9999999);
  }
}

TEST(Pooling, WithoutActivationScoresAreLogits) {
  const auto runner = load("bert_reranker", {});
  const auto cases = read_cases("bert_reranker", runner->plan().spec.pooling);
  const auto logits = run(*runner, cases, {.run = {.use_activation = false}});
  for (size_t i = 0; i < cases.size(); ++i) {
    const double score = 1.0 / (1.0 + std::exp(-double{logits[i].values[0]}));
    EXPECT_NEAR(score, cases[i].rows[0][0], 2e-4);
  }
}

TEST(Pooling, TokenEmbeddingsAreOneRowPerToken) {
  const auto runner = load("bert_mean", {});
  auto cases = read_cases("bert_mean", runner->plan().spec.pooling);
  for (PoolingCase& one : cases) one.params.task = PoolingTask::kTokenEmbed;
  const auto outputs = run(*runner, cases, {});
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(outputs[i].num_rows(), std::ssize(cases[i].ids));
}

// jina-embeddings-v3: the outputs of texts for each of its tasks, alone and all in one step.
TEST(Pooling, AdaptersOfTasksAreTheOracles) {
  const std::string name = "jina_v3_tasks";
  const boost::json::value golden = test::read_pooling_golden(name);
  std::vector<PooledOutput> alone;
  for (const bool together : {false, true}) {
    const RunOptions options{
        .threads = together ? 3 : 1, .run = {.together = together}, .max_adapters = 3};
    const auto runner = load(name, options);
    const PoolingSpec& pooling = runner->plan().spec.pooling;
    std::vector<PoolingCase> cases = parse_cases(golden.at("cases"), pooling);
    for (const auto& [task, list] : golden.at("tasks").as_object()) {
      const std::string path = task_adapter_path(pooling_dir(name).string(), task);
      const auto adapter = runner->load_adapter(std::string(task), path);
      ASSERT_TRUE(adapter.ok()) << adapter.status().message();
      for (PoolingCase& one : parse_cases(list, pooling)) {
        cases.push_back(std::move(one));
        cases.back().adapter = *adapter;
      }
    }
    const std::vector<PooledOutput> outputs = run(*runner, cases, options);
    const Distance worst = distance(cases, outputs);
    EXPECT_LE(worst.difference, 2e-4);
    EXPECT_GE(worst.cosine, 0.99999);
    if (!together) alone = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i].values, alone[i].values) << i;
  }
}

// All layers of an encoder store keys and values in one place.
TEST(Pooling, EncodersKeepTheKvOfOneLayer) {
  const auto runner = load("bert_mean", {});
  const KvSpec kv = runner->kv_spec();
  ASSERT_EQ(kv.groups.size(), 1u);
  EXPECT_EQ(kv.groups[0].layers.size(), 3u);
  EXPECT_EQ(kv.block_bytes, 2 * 16 * 32 * 4);
}

}  // namespace
}  // namespace quire
