// Golden parity: tiny random models of every family against transformers
// (tools/make_model_goldens.py).
//
// float32: logits within 1e-4 of the oracle's, as the norm of the difference over the norm of the
// row; 64 greedy tokens equal. The goldens hold no step whose two best logits are closer than
// min_gap, so that equal tokens are no luck. bfloat16: weights, activations entering products, and
// KV have 8 bits of mantissa (2^-9 relative rounding each); through 2 to 6 layers whose random
// weights do not damp errors we allow 6 % of the row's norm, teacher-forced, and a different best
// token only where the oracle's logit for it is within that budget of its best.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <map>

#include "exec/model_runner.h"
#include "exec/test_driver.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::DriverRequest;
using test::PlanDriver;

constexpr int32_t kNumBlocks = 512;
constexpr double kF32Budget = 1e-4;
constexpr double kBf16Budget = 6e-2;

std::string decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<uint32_t>(kDigits.find(c));
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>((bits >> num_bits) & 0xff);
    }
  }
  return bytes;
}

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  std::vector<int32_t> rows;               // prompt rows whose logits are kept
  std::vector<std::vector<float>> logits;  // one per row
  double min_gap = 0.0;
  int64_t max_model_len = 0;  // 0: the model's own
};

std::filesystem::path goldens_dir() { return test::source_dir() / "tests" / "goldens" / "models"; }

Golden read_golden(const std::filesystem::path& dir) {
  const boost::json::value json = boost::json::parse(test::read_file(dir / "golden.json"));
  Golden golden;
  for (const auto& id : json.at("prompt").as_array())
    golden.prompt.push_back(id.to_number<TokenId>());
  for (const auto& id : json.at("tokens").as_array())
    golden.tokens.push_back(id.to_number<TokenId>());
  for (const auto& row : json.at("rows").as_array())
    golden.rows.push_back(row.to_number<int32_t>());
  golden.min_gap = json.at("min_gap").to_number<double>();
  golden.max_model_len = json.at("max_model_len").to_number<int64_t>();
  const std::string bytes = decode_base64(json.at("logits_f32_base64").as_string());
  const size_t row_bytes = bytes.size() / golden.rows.size();
  for (size_t i = 0; i < golden.rows.size(); ++i) {
    golden.logits.emplace_back(row_bytes / sizeof(float));
    std::memcpy(golden.logits.back().data(), bytes.data() + i * row_bytes, row_bytes);
  }
  return golden;
}

using LogitsByPosition = std::map<int32_t, std::vector<float>>;  // of the predicted token

std::unique_ptr<ModelRunner> load(const std::filesystem::path& path, const std::string& dtype,
                                  int64_t max_model_len, LogitsByPosition& seen) {
  auto files = ModelFiles::open(path.string());
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.dtype = dtype;
  options.max_model_len = max_model_len;
  options.kv_cache_memory_bytes = int64_t{64} << 20;
  options.threads = 1;
  options.pin_threads = false;
  options.max_num_batched_tokens = 128;
  options.max_num_seqs = 8;
  options.on_logits = [&seen](RequestId, int32_t position, std::span<const float> logits) {
    seen[position].assign(logits.begin(), logits.end());
  };
  auto runner = ModelRunner::create(options);
  QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
  QUIRE_CHECK((*runner)->initialize({.num_blocks = kNumBlocks}).ok());
  return std::move(*runner);
}

// |a - b| / |b|
double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0, norm = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

double worst_error(const Golden& golden, LogitsByPosition& seen) {
  double worst = 0.0;
  for (size_t i = 0; i < golden.rows.size(); ++i) {
    const std::vector<float>& got = seen[golden.rows[i] + 1];
    EXPECT_EQ(got.size(), golden.logits[i].size());
    if (got.size() != golden.logits[i].size()) return 1.0;
    worst = std::max(worst, relative_error(got, golden.logits[i]));
  }
  return worst;
}

DriverRequest greedy_request(const std::vector<TokenId>& prompt, size_t max_tokens) {
  DriverRequest request{.id = 1, .prompt = prompt};
  request.params.max_tokens = static_cast<int32_t>(max_tokens);
  request.params.temperature = 0.0f;
  request.params.prompt_logprobs = 0;  // so that every row's logits are computed
  return request;
}

void expect_float32_parity(const std::filesystem::path& dir, const std::filesystem::path& model) {
  const Golden golden = read_golden(dir);
  LogitsByPosition seen;
  const auto runner = load(model, "float32", golden.max_model_len, seen);
  PlanDriver driver(*runner, kNumBlocks);
  // In chunks that fall on neither block nor window bounds.
  auto outputs = driver.run({greedy_request(golden.prompt, golden.tokens.size())}, {.chunk = 19});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = worst_error(golden, seen);
  EXPECT_LE(error, kF32Budget);
  EXPECT_EQ(outputs[1].token_ids, golden.tokens) << "smallest gap on the way: " << golden.min_gap;
  ::testing::Test::RecordProperty("worst_logit_error", fmt::format("{:.2e}", error));
  fmt::print("{}: worst logit error {:.2e}, min gap {}\n", model.string(), error, golden.min_gap);
}

std::vector<std::string> golden_names(bool with_gguf) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens_dir())) {
    if (!with_gguf || std::filesystem::exists(entry.path() / "model.gguf")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ModelGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelGolden, Float32) {
  const auto dir = goldens_dir() / GetParam();
  expect_float32_parity(dir, dir);
}

TEST_P(ModelGolden, Bfloat16) {
  const Golden golden = read_golden(goldens_dir() / GetParam());
  LogitsByPosition seen;
  const auto runner = load(goldens_dir() / GetParam(), "bfloat16", golden.max_model_len, seen);
  ASSERT_EQ(runner->plan().compute, ComputeType::kBF16);
  std::vector<TokenId> all = golden.prompt;
  all.insert(all.end(), golden.tokens.begin(), golden.tokens.end());
  PlanDriver driver(*runner, kNumBlocks);
  auto outputs = driver.run({greedy_request(all, 1)}, {});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = worst_error(golden, seen);
  EXPECT_LE(error, kBf16Budget);
  int agreed = 0;
  for (size_t i = 0; i < golden.tokens.size(); ++i) {
    const std::vector<float>& row = seen[static_cast<int32_t>(golden.prompt.size() + i)];
    const auto best = std::max_element(row.begin(), row.end());
    const float wanted = row[static_cast<size_t>(golden.tokens[i])];
    agreed += wanted == *best ? 1 : 0;
    double norm = 0.0;
    for (const float x : row) norm += double{x} * x;
    EXPECT_LE(*best - wanted, kBf16Budget * std::sqrt(norm)) << "step " << i;
  }
  fmt::print("{}: bf16 worst logit error {:.2e}, {} of {} tokens agree\n", GetParam(), error,
             agreed, golden.tokens.size());
}

INSTANTIATE_TEST_SUITE_P(All, ModelGolden, ::testing::ValuesIn(golden_names(false)),
                         [](const auto& info) { return info.param; });

class GgufGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufGolden, Float32) {
  const auto dir = goldens_dir() / GetParam();
  expect_float32_parity(dir, dir / "model.gguf");
}

INSTANTIATE_TEST_SUITE_P(All, GgufGolden, ::testing::ValuesIn(golden_names(true)),
                         [](const auto& info) { return info.param; });

// Every family has at least one golden.
TEST(ModelGoldens, CoverEveryFamily) {
  std::map<std::string_view, int> count;
  for (const Family* family : all_families()) count[family->name] = 0;
  for (const std::string& name : golden_names(false)) {
    const auto config = parse_model_config(test::read_file(goldens_dir() / name / "config.json"));
    ASSERT_TRUE(config.ok()) << name << ": " << config.status().message();
    ++count[config->family->name];
  }
  for (const auto& [family, number] : count) EXPECT_GE(number, 1) << family;
}

}  // namespace
}  // namespace quire
