// Tiny random embedders, rerankers and classifiers against transformers
// (tools/make_pooling_goldens.py), and law L4 for what is pooled.
//
// float32: values within 2e-4 of the oracle's and rows in the same direction (cosine >= 0.99999).
// bfloat16: weights, activations that enter products, and keys and values have 8 bits of mantissa;
// rows stay within a cosine of 0.995 through these undamped random weights.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "exec/testing/golden_support.h"
#include "tests/support/test_data.h"
#include "weights/adapters/task_adapters.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

struct PoolingCase {
  std::vector<TokenId> ids;
  PoolingParams params;
  std::vector<std::vector<float>> rows;
  std::shared_ptr<const Adapter> adapter = {};
};

// "gguf_bert_mean" is the GGUF file of "bert_mean".
constexpr std::string_view kGguf = "gguf_";

fs::path pooling_dir(const std::string& name) {
  return test::source_dir() / "tests" / "goldens" / "pooling" /
         (name.starts_with(kGguf) ? name.substr(kGguf.size()) : name);
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(pooling_dir(""))) {
    names.push_back(entry.path().filename().string());
    if (fs::exists(entry.path() / "model.gguf")) names.push_back(std::string(kGguf) + names.back());
  }
  std::sort(names.begin(), names.end());
  return names;
}

PoolingTask own_task(const PoolingSpec& pooling) {
  if (!pooling.classifies) return PoolingTask::kEmbed;
  return pooling.per_token ? PoolingTask::kTokenClassify : PoolingTask::kClassify;
}

boost::json::value read_golden(const std::string& name) {
  return boost::json::parse(test::read_file(pooling_dir(name) / "golden.json"));
}

std::vector<PoolingCase> parse_cases(const boost::json::value& list, const PoolingSpec& pooling) {
  std::vector<PoolingCase> cases;
  for (const boost::json::value& one : list.as_array()) {
    PoolingCase& added = cases.emplace_back();
    added.ids = boost::json::value_to<std::vector<TokenId>>(one.at("ids"));
    added.params.task = own_task(pooling);
    added.params.first_type_1_token = static_cast<int32_t>(one.at("first_type_1_token").as_int64());
    for (const boost::json::value& row : one.at("rows").as_array())
      added.rows.push_back(boost::json::value_to<std::vector<float>>(row));
  }
  return cases;
}

std::vector<PoolingCase> read_cases(const std::string& name, const PoolingSpec& pooling) {
  return parse_cases(read_golden(name).at("cases"), pooling);
}

struct RunOptions {
  std::string dtype = "float32";
  std::string isa = "auto";
  int threads = 1;
  int32_t chunk = 1 << 20;  // tokens of a request in a step, of models that allow it
  bool together = false;    // all requests in one step, in reverse order
  bool use_activation = true;
  int32_t dimensions = 0;
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
                                     .max_adapters = options.max_adapters,
                                     .kv_cache_memory_bytes = int64_t{4} << 20});
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  const Status ready = (*runner)->initialize({.num_blocks = 256});
  EXPECT_TRUE(ready.ok()) << ready.message();
  return std::move(*runner);
}

// Adds `num_tokens` more of the case to the plan, in blocks of its own.
void schedule(const ModelRunner& runner, const PoolingCase& one, size_t index, int32_t computed,
              int32_t num_tokens, StepPlan& plan) {
  const RequestId id(index + 1);
  const auto length = static_cast<int32_t>(one.ids.size());
  if (computed == 0) {
    plan.new_requests.push_back({.id = id,
                                 .token_ids = one.ids,
                                 .num_prompt_tokens = length,
                                 .params = std::make_shared<SamplingParams>(),
                                 .adapter = one.adapter,
                                 .kind = RequestKind::kPool,
                                 .pooling = std::make_shared<PoolingParams>(one.params)});
    const auto num_groups = static_cast<int32_t>(runner.kv_spec().groups.size());
    for (int32_t group = 0; group < num_groups; ++group) {
      for (int32_t block = 0; block < (length + 15) / 16; ++block) {
        plan.block_updates.push_back(
            {.request_index = static_cast<int32_t>(plan.scheduled.size()),
             .group = group,
             .logical_index = block,
             .block = BlockId(1 + static_cast<int32_t>(index) * 8 + group * 4 + block)});
      }
    }
  }
  plan.scheduled.push_back(
      {.id = id, .num_computed_tokens = computed, .num_scheduled_tokens = num_tokens});
  plan.total_num_scheduled_tokens += num_tokens;
}

// What the model makes of each case.
std::vector<PooledOutput> run(ModelRunner& runner, std::vector<PoolingCase> cases,
                              const RunOptions& options) {
  std::vector<PooledOutput> outputs(cases.size());
  for (PoolingCase& one : cases) {
    one.params.use_activation = options.use_activation;
    one.params.dimensions = options.dimensions;
  }
  const auto execute = [&](const StepPlan& plan) {
    auto result = runner.execute(plan);
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (RequestStepResult& request : result->requests) {
      ASSERT_TRUE(request.status.ok()) << request.status.message();
      outputs[request.id.value - 1] = std::move(request.pooled);
    }
  };
  StepPlan plan;
  if (options.together) {
    for (size_t i = cases.size(); i-- > 0;)
      schedule(runner, cases[i], i, 0, static_cast<int32_t>(cases[i].ids.size()), plan);
    execute(plan);
    return outputs;
  }
  const bool whole = runner.info().pooling.is_bidirectional;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto length = static_cast<int32_t>(cases[i].ids.size());
    for (int32_t done = 0; done < length;) {
      const int32_t count = whole ? length : std::min(options.chunk, length - done);
      plan.clear();
      schedule(runner, cases[i], i, done, count, plan);
      execute(plan);
      done += count;
    }
  }
  return outputs;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

// The worst difference and the worst cosine over all rows.
struct Distance {
  double difference = 0.0;
  double cosine = 1.0;
};
Distance distance(const std::vector<PoolingCase>& cases, const std::vector<PooledOutput>& outputs) {
  Distance worst;
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(outputs[i].num_rows(), std::ssize(cases[i].rows)) << "case " << i;
    const auto columns = static_cast<size_t>(outputs[i].num_columns);
    for (size_t row = 0; row < cases[i].rows.size(); ++row) {
      const std::vector<float>& want = cases[i].rows[row];
      EXPECT_EQ(want.size(), columns);
      if (want.size() != columns || outputs[i].values.size() < (row + 1) * columns) return {1, 0};
      const std::span<const float> got(outputs[i].values.data() + row * columns, columns);
      for (size_t k = 0; k < columns; ++k)
        worst.difference = std::max(worst.difference, double{std::fabs(got[k] - want[k])});
      worst.cosine = std::min(worst.cosine, cosine(got, want));
    }
  }
  return worst;
}

class PoolingGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(PoolingGolden, Float32OnEveryInstructionSet) {
  for (const Isa isa : test::golden_vector_isas()) {
    const RunOptions options{.isa = std::string(to_string(isa)), .chunk = 13};
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

// Alone, in a crowd of other lengths, in chunks, on any number of threads: equal bits.
TEST_P(PoolingGolden, SameBitsInAnyCompany) {
  for (const char* dtype : {"float32", "bfloat16"}) {
    std::vector<PooledOutput> first;
    for (const int threads : {1, 3}) {
      for (const bool together : {false, true}) {
        for (const int32_t chunk : {5, 1 << 20}) {
          const RunOptions options{
              .dtype = dtype, .threads = threads, .chunk = chunk, .together = together};
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

// Matryoshka: fewer dimensions are the first ones, scaled to length 1 again.
TEST(Pooling, DimensionsAreCutBeforeTheVectorIsNormalized) {
  const auto runner = load("bert_mean", {});
  const auto cases = read_cases("bert_mean", runner->plan().spec.pooling);
  const auto whole = run(*runner, cases, {});
  const auto cut = run(*runner, cases, {.dimensions = 8});
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
  const auto logits = run(*runner, cases, {.use_activation = false});
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

// jina-embeddings-v3: what the model makes of texts for each of its tasks, alone and all in one step.
TEST(Pooling, AdaptersOfTasksAreTheOracles) {
  const std::string name = "jina_v3_tasks";
  const boost::json::value golden = read_golden(name);
  std::vector<PooledOutput> alone;
  for (const bool together : {false, true}) {
    const RunOptions options{.threads = together ? 3 : 1, .together = together, .max_adapters = 3};
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

// All layers of an encoder keep keys and values in one place.
TEST(Pooling, EncodersKeepTheKvOfOneLayer) {
  const auto runner = load("bert_mean", {});
  const KvSpec kv = runner->kv_spec();
  ASSERT_EQ(kv.groups.size(), 1u);
  EXPECT_EQ(kv.groups[0].layers.size(), 3u);
  EXPECT_EQ(kv.block_bytes, 2 * 16 * 32 * 4);
}

}  // namespace
}  // namespace quire
