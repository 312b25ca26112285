// These tests run beam search with real models: the texts must be transformers'
// (tools/make_beam_goldens.py), and they and their log-probabilities must have the same bits
// whatever runs beside the search (law L4).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <random>

#include "engine/engine.h"
#include "exec/model_runner.h"
#include "tests/laws/golden_model.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

constexpr int32_t kVocab = 160;

struct Text {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::optional<FinishReason> finish_reason;
};

struct EngineSetup {
  int32_t num_blocks = 500;
  int32_t budget = 512;
  int32_t chunk = 0;
  int threads = 2;
  bool prefix_caching = true;
  bool reserve_full_isl = true;
};

std::unique_ptr<Engine> make_engine(const std::string& model, const std::string& dtype,
                                    const EngineSetup& setup) {
  ModelRunnerOptions options;
  options.files = test::golden_model(model);
  options.dtype = dtype;
  options.block_size = 8;
  options.state_block_size = 16;
  options.max_model_len = 112;
  options.kv_cache_memory_bytes = int64_t{64} << 20;
  options.threads = setup.threads;
  options.pin_threads = false;
  options.max_num_batched_tokens = 512;
  options.max_num_seqs = 40;
  auto runner = ModelRunner::create(options);
  QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
  EngineOptions engine;
  engine.num_blocks = setup.num_blocks;
  engine.log_interval_us = 0;
  engine.kv.enable_prefix_caching = setup.prefix_caching;
  engine.scheduler.max_model_len = 112;
  engine.scheduler.max_num_seqs = 40;
  engine.scheduler.max_num_batched_tokens = setup.budget;
  engine.scheduler.long_prefill_token_threshold = setup.chunk;
  engine.scheduler.reserve_full_isl = setup.reserve_full_isl;
  auto made = Engine::create(engine, std::move(*runner), nullptr, std::make_shared<SteadyClock>());
  // Fails if there are too few blocks for one request.
  return made.ok() ? std::move(*made) : nullptr;
}

class Client {
 public:
  explicit Client(Engine& engine) : engine_(engine) {}

  // Returns the index of the request's texts in run()'s result.
  size_t submit(GenerationRequest request) {
    const Status valid = engine_.prepare(request);
    QUIRE_CHECK(valid.ok(), "{}", valid.message());
    auto channel =
        std::make_shared<OutputChannel>(request.num_choices, engine_.options().stream, nullptr);
    texts_.emplace_back(static_cast<size_t>(request.num_choices));
    channels_.push_back(channel);
    const Status added =
        engine_.add({GroupId(channels_.size()), std::move(request), std::move(channel)});
    QUIRE_CHECK(added.ok(), "{}", added.message());
    return channels_.size() - 1;
  }

  const std::vector<std::vector<Text>>& run() {
    for (int step = 0; engine_.has_unfinished(); ++step) {
      QUIRE_CHECK(step < 20000, "the run does not end");
      engine_.step();
    }
    engine_.step();  // so that the statistics are those of the end
    for (size_t i = 0; i < channels_.size(); ++i) {
      while (auto delta = channels_[i]->try_pop()) {
        QUIRE_CHECK(delta->status.ok(), "{}", delta->status.message());
        Text& text = texts_[i][static_cast<size_t>(delta->choice_index)];
        text.token_ids.insert(text.token_ids.end(), delta->token_ids.begin(),
                              delta->token_ids.end());
        text.logprobs.insert(text.logprobs.end(), delta->logprobs.begin(), delta->logprobs.end());
        if (delta->finish_reason) text.finish_reason = delta->finish_reason;
      }
    }
    EXPECT_EQ(engine_.stats().kv_blocks_in_use, 0);
    EXPECT_EQ(engine_.stats().state_blocks_in_use, 0);
    return texts_;
  }

 private:
  Engine& engine_;
  std::vector<std::shared_ptr<OutputChannel>> channels_;
  std::vector<std::vector<Text>> texts_;
};

GenerationRequest beam_request(std::vector<TokenId> prompt, int32_t width, int32_t max_tokens,
                               TokenId eos) {
  GenerationRequest r;
  r.external_id = "test";
  r.prompt_token_ids = std::move(prompt);
  r.num_choices = width;
  r.beam_search.emplace();
  r.params.max_tokens = max_tokens;
  r.params.logprobs = 2;
  if (eos >= 0) r.params.eos_token_ids = {eos};
  return r;
}

std::vector<TokenId> ids_of(const boost::json::value& list) {
  std::vector<TokenId> ids;
  for (const auto& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

EarlyStopping early_stopping_of(const boost::json::value& value) {
  if (value.is_string()) return EarlyStopping::kNever;
  return value.as_bool() ? EarlyStopping::kYes : EarlyStopping::kNo;
}

class BeamGoldens : public ::testing::TestWithParam<const char*> {};

// Runs all cases together.
TEST_P(BeamGoldens, AreTransformersBeams) {
  const auto path =
      test::source_dir() / "tests" / "goldens" / "beams" / (std::string(GetParam()) + ".json");
  const boost::json::value golden = boost::json::parse(test::read_file(path));
  const auto engine = make_engine(GetParam(), "float32", {.num_blocks = 2000});
  Client client(*engine);
  const boost::json::array& cases = golden.at("cases").as_array();
  ASSERT_GT(cases.size(), 70u);
  for (const boost::json::value& one : cases) {
    GenerationRequest r = beam_request(ids_of(golden.at("prompt")),
                                       static_cast<int32_t>(one.at("num_beams").as_int64()),
                                       static_cast<int32_t>(golden.at("max_tokens").as_int64()),
                                       static_cast<TokenId>(golden.at("eos_token_id").as_int64()));
    r.beam_search->early_stopping = early_stopping_of(one.at("early_stopping"));
    r.beam_search->length_penalty = one.at("length_penalty").to_number<float>();
    client.submit(std::move(r));
  }
  const std::vector<std::vector<Text>>& texts = client.run();
  for (size_t i = 0; i < cases.size(); ++i) {
    const boost::json::array& want = cases[i].at("beams").as_array();
    ASSERT_EQ(texts[i].size(), want.size());
    for (size_t beam = 0; beam < want.size(); ++beam) {
      EXPECT_EQ(texts[i][beam].token_ids, ids_of(want[beam]))
          << boost::json::serialize(cases[i]) << ", beam " << beam;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BeamGoldens, ::testing::Values("llama", "gemma3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

struct Model {
  const char* name;
  const char* dtype;
};

class BeamsL4 : public ::testing::TestWithParam<Model> {
 protected:
  std::unique_ptr<Engine> engine(const EngineSetup& setup) {
    return make_engine(GetParam().name, GetParam().dtype, setup);
  }

  // Returns searches of which some share a prefix or a prompt.
  static std::vector<GenerationRequest> searches() {
    std::mt19937 random(20261125);
    std::vector<TokenId> shared(40);
    for (TokenId& token : shared) token = static_cast<TokenId>(random() % kVocab);
    std::vector<GenerationRequest> all;
    for (int32_t i = 0; i < 8; ++i) {
      std::vector<TokenId> prompt(shared.begin(), shared.begin() + (i % 4 == 0 ? 40 : i * 5));
      for (auto tail = random() % 9 + (i % 4 != 0); tail > 0; --tail)
        prompt.push_back(static_cast<TokenId>(random() % kVocab));
      all.push_back(
          beam_request(prompt, 1 + i % 5, 8 + i, static_cast<TokenId>(random() % kVocab)));
      if (i % 3 == 1) all.back().beam_search->early_stopping = EarlyStopping::kNo;
    }
    return all;
  }

  std::vector<std::vector<Text>> alone() {
    std::vector<std::vector<Text>> texts;
    for (const GenerationRequest& search : searches()) {
      const auto own = engine({.threads = 1, .prefix_caching = false});
      Client client(*own);
      client.submit(search);
      texts.push_back(client.run()[0]);
    }
    return texts;
  }

  static void expect_same_bits(const std::vector<Text>& got, const std::vector<Text>& want,
                               const std::string& what) {
    SCOPED_TRACE(what);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].token_ids, want[i].token_ids);
      ASSERT_EQ(got[i].finish_reason, want[i].finish_reason);
      ASSERT_EQ(got[i].logprobs.size(), want[i].logprobs.size());
      for (size_t t = 0; t < want[i].logprobs.size(); ++t) {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i].logprobs[t].logprob),
                  std::bit_cast<uint32_t>(want[i].logprobs[t].logprob));
        ASSERT_EQ(got[i].logprobs[t].top, want[i].logprobs[t].top);
      }
    }
  }

  // Returns whether every search fits by itself.
  bool fits(const EngineSetup& setup) {
    const auto small = engine(setup);
    if (small == nullptr) return false;
    for (const GenerationRequest& search : searches()) {
      auto channel = std::make_shared<OutputChannel>(search.num_choices, StreamLimits(), nullptr);
      if (!small->add({GroupId(1), search, channel}).ok()) return false;
      small->abort(GroupId(1));
    }
    return true;
  }

  // Runs the searches together with requests that sample.
  void expect_same_together(const EngineSetup& setup, const std::vector<std::vector<Text>>& want,
                            const std::string& what, EngineStats* stats = nullptr) {
    const auto crowded = engine(setup);
    Client client(*crowded);
    std::vector<size_t> places;
    uint64_t seed = 0;
    for (const GenerationRequest& search : searches()) {
      GenerationRequest other = search;
      other.beam_search.reset();
      other.params.seed = ++seed;
      client.submit(other);
      places.push_back(client.submit(search));
    }
    const auto& texts = client.run();
    for (size_t i = 0; i < places.size(); ++i)
      expect_same_bits(texts[places[i]], want[i], fmt::format("{}, search {}", what, i));
    if (stats != nullptr) *stats = crowded->stats();
  }
};

TEST_P(BeamsL4, TogetherInChunksAndAfterHitsEqualsAlone) {
  const auto want = alone();
  for (const int threads : {1, 2}) {
    for (const int32_t chunk : {0, 7}) {
      const EngineSetup setup{.budget = chunk == 0 ? 512 : 60, .chunk = chunk, .threads = threads};
      EngineStats stats;
      expect_same_together(setup, want, fmt::format("{} threads, chunk {}", threads, chunk),
                           &stats);
      if (chunk > 0) {
        EXPECT_GT(stats.prefix_cache_hits, 0u) << "all that come in one step compute their own";
      }
    }
  }
}

TEST_P(BeamsL4, PreemptedEqualsAlone) {
  const auto want = alone();
  for (const bool caching : {false, true}) {
    // Begins with room for the widest search alone, and reduces it until a search is preempted.
    EngineStats stats;
    for (int32_t num_blocks = 12; num_blocks < 200; num_blocks += 6) {
      const EngineSetup setup{.num_blocks = num_blocks,
                              .budget = 64,
                              .prefix_caching = caching,
                              .reserve_full_isl = false};
      if (!fits(setup)) continue;
      expect_same_together(setup, want, fmt::format("{} blocks", num_blocks), &stats);
      if (stats.num_preemptions > 0) break;
    }
    // Beams over sliding windows reserve all their blocks at once, so none is preempted.
    if (std::string_view(GetParam().name) == "gemma3") continue;
    EXPECT_GT(stats.num_preemptions, 0u) << "the load must preempt to mean anything";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BeamsL4,
                         ::testing::Values(Model{"llama", "float32"}, Model{"llama", "bfloat16"},
                                           Model{"gemma3", "bfloat16"}, Model{"gpt2", "float32"},
                                           Model{"lfm2", "bfloat16"},
                                           Model{"qwen3_next", "float32"}),
                         [](const auto& info) {
                           return std::string(info.param.name) + "_" + info.param.dtype;
                         });

}  // namespace
}  // namespace quire
