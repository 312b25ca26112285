// Golden parity: tiny random models of every family against transformers
// (tools/make_model_goldens.py).
//
// float32: logits are within 1e-4 of the oracle's (norm of the difference over norm of the row),
// and 64 greedy tokens are equal. No step of a golden has two best logits closer than min_gap, so
// that equal tokens are not luck. bfloat16: weights, activations that enter products, and KV have 8
// bits of mantissa (2^-9 relative rounding each). Through 2 to 6 layers, whose random weights do
// not damp errors, the test allows 6 % of the row's norm, teacher-forced, and another best token
// only where the oracle's logit for it is within that budget of its best.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "exec/testing/golden_support.h"
#include "exec/testing/test_driver.h"
#include "models/shapes.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::Golden;
using test::LogitsByPosition;
using test::PlanDriver;

constexpr double kF32Budget = 1e-4;
constexpr double kBf16Budget = 6e-2;

using test::golden_dir;
using test::model_golden_names;

void expect_float32_parity(const std::filesystem::path& dir, const std::filesystem::path& model,
                           Isa isa) {
  const Golden golden = test::read_golden(dir);
  LogitsByPosition seen;
  const auto runner =
      test::load_golden(model, "float32", golden.max_model_len, seen, to_string(isa));
  PlanDriver driver(*runner, test::kGoldenBlocks);
  // Uses chunks that end neither at block nor at window bounds.
  auto outputs =
      driver.run({test::greedy_request(golden.prompt, golden.tokens.size())}, {.chunk = 19});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = test::worst_error(golden, seen);
  EXPECT_LE(error, kF32Budget);
  EXPECT_EQ(outputs[1].token_ids, golden.tokens) << "smallest gap on the way: " << golden.min_gap;
  ::testing::Test::RecordProperty("worst_logit_error", fmt::format("{:.2e}", error));
  fmt::print("{}: worst logit error {:.2e}, min gap {}\n", model.string(), error, golden.min_gap);
}

class ModelGoldenFloat32 : public ::testing::TestWithParam<test::GoldenOnIsa> {};
class ModelGolden : public ::testing::TestWithParam<test::GoldenOnIsa> {};

TEST_P(ModelGoldenFloat32, Parity) {
  const auto& [name, isa] = GetParam();
  expect_float32_parity(golden_dir(name), golden_dir(name), isa);
}

TEST_P(ModelGolden, Bfloat16) {
  const auto& [name, isa] = GetParam();
  const Golden golden = test::read_golden(golden_dir(name));
  LogitsByPosition seen;
  const auto runner =
      test::load_golden(golden_dir(name), "bfloat16", golden.max_model_len, seen, to_string(isa));
  ASSERT_EQ(runner->plan().compute, ComputeType::kBF16);
  std::vector<TokenId> all = golden.prompt;
  all.insert(all.end(), golden.tokens.begin(), golden.tokens.end());
  PlanDriver driver(*runner, test::kGoldenBlocks);
  auto outputs = driver.run({test::greedy_request(all, 1)}, {});
  ASSERT_TRUE(outputs[1].status.ok()) << outputs[1].status.message();
  const double error = test::worst_error(golden, seen);
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
  fmt::print("{}: bf16 worst logit error {:.2e}, {} of {} tokens agree\n", name, error, agreed,
             golden.tokens.size());
}

INSTANTIATE_TEST_SUITE_P(All, ModelGoldenFloat32,
                         ::testing::Combine(::testing::ValuesIn(model_golden_names()),
                                            ::testing::ValuesIn(test::golden_vector_isas())),
                         test::golden_case);
INSTANTIATE_TEST_SUITE_P(All, ModelGolden,
                         ::testing::Combine(::testing::ValuesIn(model_golden_names()),
                                            ::testing::ValuesIn(test::golden_isas())),
                         test::golden_case);

class GgufGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufGolden, Float32) {
  const auto dir = golden_dir(GetParam());
  expect_float32_parity(dir, dir / "model.gguf", best_isa());
}

INSTANTIATE_TEST_SUITE_P(All, GgufGolden, ::testing::ValuesIn(model_golden_names(true)),
                         [](const auto& info) { return info.param; });

std::string yes(bool there) { return there ? "yes" : ""; }

// Returns the kinds of blocks in a model's layers, as far as they matter for speed.
std::set<std::string> block_kinds(const ModelConfig& config) {
  const auto spec =
      make_decoder_spec(config, std::min<int64_t>(config.max_model_len(), 256), DType::kBF16);
  QUIRE_CHECK(spec.ok(), "{}", spec.status().message());
  std::set<std::string> kinds;
  if (!spec->alibi_slopes.empty()) kinds.insert("ALiBi");
  if (spec->streams.any()) kinds.insert("streams");
  for (const LayerSpec& layer : spec->layers) {
    const AttentionSpec& attention = layer.attention;
    if (attention.latent.any()) kinds.insert("latents");
    if (attention.any() && !attention.latent.any())
      kinds.insert(attention.sliding_window > 0 ? "window" : "attention");
    if (attention.has_sinks) kinds.insert("sinks");
    if (layer.state.any())
      kinds.insert(fmt::format("state {}", static_cast<int>(layer.state.kind)));
    if (layer.shared.any()) kinds.insert("shared block");
    if (layer.ffn.experts.any()) kinds.insert("experts");
    if (layer.ffn.intermediate_size > 0) kinds.insert(layer.ffn.gated ? "MLP" : "MLP of two");
  }
  return kinds;
}

// Returns named shapes that together have all kinds of blocks of a family. It picks one at a time:
// the one with the most missing kinds, and among those the one with the fewest kinds that the
// family lacks. Returns nothing if no shape has some kind.
std::string speed_shapes(const std::vector<std::string>& goldens) {
  std::set<std::string> wanted;
  for (const std::string& name : goldens) wanted.merge(block_kinds(test::golden_config(name)));
  std::set<std::string> missing = wanted;
  std::string list;
  while (!missing.empty()) {
    std::pair<int64_t, int64_t> most;  // missing kinds, and minus the unwanted ones
    std::string best;
    std::stringstream names(known_model_shapes());
    for (std::string name; std::getline(names >> std::ws, name, ',');) {
      const std::set<std::string> kinds = block_kinds(*model_shape(name));
      const auto in = [](const std::set<std::string>& set) {
        return [&set](const std::string& kind) { return set.contains(kind); };
      };
      const std::pair<int64_t, int64_t> found{
          std::ranges::count_if(kinds, in(missing)),
          std::ranges::count_if(kinds, in(wanted)) - std::ssize(kinds)};
      if (found.first > 0 && found > most) std::tie(most, best) = std::tie(found, name);
    }
    if (best.empty()) return "";
    for (const std::string& kind : block_kinds(*model_shape(best))) missing.erase(kind);
    list.append(list.empty() ? "" : ", ").append(best);
  }
  return list;
}

// Returns the table of docs/models.md, which lists for each family what tests cover.
std::string families_table() {
  std::map<const Family*, std::vector<std::string>> goldens;
  for (const std::string& name : model_golden_names())
    goldens[test::golden_config(name).family].push_back(name);
  std::map<std::string_view, bool> quantized;
  for (const auto& entry :
       std::filesystem::directory_iterator(golden_dir("awq_llama").parent_path())) {
    const std::string name = entry.path().filename().string();
    for (const Family* family : all_families()) {
      if (name.ends_with(family->name)) quantized[family->name] = true;
    }
  }
  std::string table =
      "| family | config.json | GGUF | quantized | same bits (L4) | speed shape |\n"
      "|---|---|---|---|---|---|\n";
  for (const Family* family : all_families()) {
    // These have tables of their own.
    if (family->is_bidirectional || family->reads_source) continue;
    const std::vector<std::string>& names = goldens[family];
    const bool has_gguf = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return std::filesystem::exists(golden_dir(name) / "model.gguf");
    });
    std::string types;
    for (const std::string_view type : family->model_types)
      types.append(types.empty() ? "" : ", ").append(type);
    table += fmt::format("| {} | {} | {} | {} | {} | {} |\n", family->name, types,
                         has_gguf ? family->gguf_architecture : "", yes(quantized[family->name]),
                         yes(!names.empty()), speed_shapes(names));
  }
  return table;
}

// Every family has at least one golden.
TEST(ModelGoldens, CoverEveryFamily) {
  std::map<std::string_view, int> count;
  for (const Family* family : all_families()) count[family->name] = 0;
  for (const std::string& name : model_golden_names())
    ++count[test::golden_config(name).family->name];
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests" / "goldens" / "pooling")) {
    const auto config = parse_model_config(test::read_file(entry.path() / "config.json"));
    ASSERT_TRUE(config.ok()) << config.status().message();
    ++count[config->family->name];
  }
  count["whisper"] += std::filesystem::exists(test::source_dir() / "tests" / "goldens" / "speech" /
                                              "whisper" / "golden.json");
  for (const char* name : {"t5", "bart"})
    count[name] += std::filesystem::exists(test::source_dir() / "tests" / "goldens" / "seq2seq" /
                                           name / "golden.json");
  for (const auto& [family, golden] :
       {std::pair{"jina_bert_v2", "jina_bert_mean"}, {"gemma_embedding", "embedding_gemma"}}) {
    count[family] += std::filesystem::exists(test::source_dir() / "tests" / "goldens" / "pooling" /
                                             golden / "model.gguf");
  }
  count["mllama"] += std::filesystem::exists(test::source_dir() / "tests" / "goldens" / "vision" /
                                             "mllama" / "golden.json");
  for (const auto& [family, number] : count) EXPECT_GE(number, 1) << family;
}

TEST(ModelGoldens, DocsListTheFamilies) {
  const std::string text = test::read_file(test::source_dir() / "docs" / "models.md");
  const std::string table = families_table();
  EXPECT_NE(text.find(table), std::string::npos) << "docs/models.md: expected the table\n" << table;
}

}  // namespace
}  // namespace quire
