// These tests run recordings over the real scheduler, KV manager and model. The results must be
// those of transformers (tools/make_speech_goldens.py), and law L4 must hold: whatever is in the
// batch, cut, evicted or preempted, a request gets the bits that it gets alone.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <set>

#include "exec/sources/speech_encoder.h"
#include "media/audio/audio_input.h"
#include "models/speech/speech_config.h"
#include "tests/laws/media_goldens.h"
#include "tests/laws/model_system.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::floats_of;
using test::ids_of;
using test::relative_error;

constexpr double kF32Budget = 1e-4;  // share of the norm of a row
constexpr int32_t kBands = 8, kFrames = 100, kRows = 50, kWidth = 32;

std::filesystem::path golden_dir() {
  return test::source_dir() / "tests" / "goldens" / "speech" / "whisper";
}

std::shared_ptr<const ModelFiles> open_files() { return test::open_model_files(golden_dir()); }

// A Window is a second of the recording and its expected results.
struct Window {
  std::shared_ptr<const MediaItem> item;
  std::vector<float> encoded, logits;
  std::vector<TokenId> prompt, tokens, timed_prompt, timed_tokens;
  std::vector<int32_t> steps;  // the steps of `logits`
  std::string language;
  double no_speech_prob = 0.0;
};

std::vector<Window> read_golden() {
  const boost::json::value json = boost::json::parse(test::read_file(golden_dir() / "golden.json"));
  std::vector<Window> windows;
  for (const boost::json::value& one : json.at("windows").as_array()) {
    auto item = std::make_shared<MediaItem>();
    item->key = std::string(1, static_cast<char>('a' + windows.size()));
    item->num_embeddings = kRows;
    item->height = kBands;
    item->width = kFrames;
    item->bands = floats_of(one.at("bands_f32_base64"));
    windows.push_back({.item = item,
                       .encoded = floats_of(one.at("encoded_f32_base64")),
                       .logits = floats_of(one.at("logits_f32_base64")),
                       .prompt = ids_of(one.at("prompt")),
                       .tokens = ids_of(one.at("tokens")),
                       .timed_prompt = ids_of(one.at("timed_prompt")),
                       .timed_tokens = ids_of(one.at("timed_tokens")),
                       .steps = ids_of(one.at("steps")),
                       .language = std::string(one.at("language").as_string()),
                       .no_speech_prob = one.at("no_speech_prob").to_number<double>()});
  }
  return windows;
}

std::shared_ptr<const TranscriptRules> rules(bool with_times) {
  const boost::json::value json =
      boost::json::parse(test::read_file(golden_dir() / "generation_config.json"));
  TranscriptRules rules;
  rules.suppressed = ids_of(json.at("suppress_tokens"));
  rules.suppressed_first = ids_of(json.at("begin_suppress_tokens"));
  rules.no_timestamps = json.at("no_timestamps_token_id").to_number<TokenId>();
  rules.end_of_text = json.at("eos_token_id").to_number<TokenId>();
  if (with_times) rules.first_timestamp = rules.no_timestamps + 1;
  rules.max_first_step = json.at("max_initial_timestamp_index").to_number<int32_t>();
  return std::make_shared<TranscriptRules>(rules);
}

Request make_request(uint64_t id, const Window& window, bool with_times, int32_t max_tokens,
                     float temperature = 0.0f) {
  auto params = test::law_params(id, max_tokens, temperature);
  params->transcript_rules = rules(with_times);
  Request request;
  request.id = RequestId(id);
  request.token_ids = with_times ? window.timed_prompt : window.prompt;
  request.num_prompt_tokens = request.num_tokens();
  request.params = std::move(params);
  request.media = {MediaSpan::of_source(window.item)};
  request.arrival_us = static_cast<int64_t>(id);
  return request;
}

TEST(Speech, WindowsOfTheRecordingAreTheOracles) {
  const AudioInput audio({.num_bands = kBands, .num_frames = kFrames, .num_embeddings = kRows});
  const std::string file = test::read_file(golden_dir() / "recording.wav");
  const auto recording = audio.load(file);
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  // transformers computes each window by itself, with a floor of its own and silence behind its
  // end.
  const std::vector<Window> windows = read_golden();
  const auto first = audio.window(*recording, 0);
  ASSERT_TRUE(first.ok());
  double worst = 0.0;
  for (int32_t band = 0; band < kBands; ++band) {
    for (int32_t frame = 0; frame + 2 < kFrames; ++frame) {
      const auto at = static_cast<size_t>(band * kFrames + frame);
      const float expected = windows[0].item->bands[at];
      if (expected > -0.4f)
        worst = std::max(worst, std::fabs(double{(*first)->bands[at]} - expected));
    }
  }
  EXPECT_LE(worst, 1e-4);
}

TEST(Speech, EncoderMakesTheOraclesRows) {
  const auto files = open_files();
  const TensorSource source = TensorSource::open(*files).value();
  ThreadTeam team = ThreadTeam::create({.num_threads = 2}).value();
  HostStream stream(team, best_isa());
  HostPacking packing(stream);
  const auto spec = read_speech(*files);
  ASSERT_TRUE(spec.ok() && *spec) << spec.status().message();
  auto encoder = SpeechEncoder::open(**spec, {.dtype = DType::kF32}, source, packing, stream);
  ASSERT_TRUE(encoder.ok()) << encoder.status().message();
  ASSERT_TRUE((*encoder)->load({}).ok());
  for (const Window& window : read_golden()) {
    const auto rows = (*encoder)->encode(*window.item);
    ASSERT_TRUE(rows.ok()) << rows.status().message();
    EXPECT_LE(relative_error({rows->rows, static_cast<size_t>(kRows * kWidth)}, window.encoded),
              kF32Budget);
  }
  MediaItem wrong = *read_golden()[0].item;
  wrong.width = 99;
  EXPECT_EQ((*encoder)->encode(wrong).status().code(), StatusCode::kInvalidArgument);
  wrong.width = kFrames;
  wrong.bands[5] = NAN;
  EXPECT_EQ((*encoder)->encode(wrong).status().code(), StatusCode::kInvalidArgument);
}

TEST(Speech, LogitsAreTheOracles) {
  std::map<int32_t, std::vector<float>> seen;  // by position
  ModelRunnerOptions options;
  options.files = open_files();
  options.dtype = "float32";
  options.kv_cache_memory_bytes = int64_t{8} << 20;
  options.max_num_seqs = 4;
  options.on_logits = [&](RequestId, int32_t position, std::span<const float> logits) {
    seen[position] = {logits.begin(), logits.end()};
  };
  test::ModelSystem system(options);
  for (const Window& window : read_golden()) {
    const auto outputs =
        system.run({make_request(1, window, false, static_cast<int32_t>(window.tokens.size()))},
                   {.max_num_batched_tokens = 3, .max_num_seqs = 1}, 100, true);
    EXPECT_EQ(outputs.at(1).token_ids, window.tokens);
    for (size_t i = 0; i < window.steps.size(); ++i) {
      const std::vector<float>& got =
          seen.at(static_cast<int32_t>(window.prompt.size()) + window.steps[i]);
      const std::span<const float> expected =
          std::span(window.logits).subspan(i * got.size(), got.size());
      EXPECT_LE(relative_error(got, expected), kF32Budget) << "step " << window.steps[i];
    }
  }
}

TEST(Speech, TokensWithTimestampsAreTheOracles) {
  test::ModelSystem system(open_files());
  for (const Window& window : read_golden()) {
    for (const int32_t step_tokens : {256, 2}) {
      const auto outputs = system.run(
          {make_request(1, window, true, static_cast<int32_t>(window.timed_tokens.size()))},
          {.max_num_batched_tokens = step_tokens, .max_num_seqs = 1}, 100, true);
      EXPECT_EQ(outputs.at(1).token_ids, window.timed_tokens) << step_tokens;
    }
  }
}

// Asks where in its window each of these tokens begins; the tokens of the prompt were read before.
Request make_alignment(uint64_t id, const Window& window, int32_t num_rows) {
  Request request = make_request(id, window, true, 1);
  auto pooling = std::make_shared<PoolingParams>();
  pooling->task = PoolingTask::kAlign;
  pooling->reads_all_tokens = true;
  pooling->first_aligned_token = static_cast<int32_t>(window.timed_prompt.size());
  pooling->num_aligned_rows = num_rows;
  request.kind = RequestKind::kPool;
  request.token_ids.insert(request.token_ids.end(), window.timed_tokens.begin(),
                           window.timed_tokens.end());
  request.num_prompt_tokens = request.num_tokens();
  request.pooling = std::move(pooling);
  return request;
}

TEST(Speech, TokensAreAlignedAsTheOracleDoes) {
  const boost::json::value json = boost::json::parse(test::read_file(golden_dir() / "golden.json"));
  const std::vector<Window> windows = read_golden();
  test::ModelSystem system(open_files());
  std::set<float> different;
  for (size_t i = 0; i < windows.size(); ++i) {
    for (const auto& cut : json.at("alignments").at(i).as_array()) {
      const auto outputs =
          system.run({make_alignment(1, windows[i], cut.at("rows").to_number<int32_t>())},
                     {.max_num_batched_tokens = 256, .max_num_seqs = 1}, 100, true);
      const std::vector<TokenId> expected = ids_of(cut.at("first_rows"));
      EXPECT_EQ(outputs.at(1).pooled.values, std::vector<float>(expected.begin(), expected.end()));
      different.insert(expected.begin(), expected.end());
    }
  }
  EXPECT_GT(different.size(), 8u) << "the tokens all begin at once: it proves nothing";
}

// Keys in fewer bits give similar alignments: most tokens begin within one row of the original
// place.
TEST(Speech, KeysOfAnyTypeAlignTokens) {
  const std::vector<Window> windows = read_golden();
  const auto rows_with = [&](const std::string& kv_cache_dtype) {
    ModelRunnerOptions options = test::ModelSystem::options_of(open_files(), "float32", 1);
    options.kv_cache_dtype = kv_cache_dtype;
    test::ModelSystem system(options);
    return system
        .run({make_alignment(1, windows[0], kRows)},
             {.max_num_batched_tokens = 256, .max_num_seqs = 1}, 100, true)
        .at(1)
        .pooled.values;
  };
  const std::vector<float> exact = rows_with("float32");
  for (const char* type : {"bfloat16", "float16", "fp8_e4m3", "fp8_e5m2", "int8"}) {
    const std::vector<float> rows = rows_with(type);
    ASSERT_EQ(rows.size(), exact.size());
    size_t num_near = 0;
    for (size_t i = 0; i < rows.size(); ++i) num_near += std::fabs(rows[i] - exact[i]) <= 1.0f;
    EXPECT_GT(2 * num_near, rows.size()) << type;
  }
}

void expect_alignments_with_same_bits(const std::string& dtype) {
  const std::vector<Window> windows = read_golden();
  test::LawLoad load{.few_encoder_tokens = kRows};
  for (uint64_t id = 1; id <= 12; ++id) {
    const Window& window = windows[id % 2];
    load.requests.push_back(id % 4 < 2 ? make_alignment(id, window, 30 + static_cast<int32_t>(id))
                                       : make_request(id, window, true, 90));
  }
  test::ModelSystem system(open_files(), dtype);
  const auto alone = test::run_alone(system, load.requests);
  EXPECT_FALSE(alone.at(1).pooled.values.empty());
  test::expect_same_bits(system, load, alone);
  test::expect_same_in_turn(system, load, alone);
  test::ModelSystem threads(open_files(), dtype, 3);
  test::expect_same_of_threads(threads, load, alone);
}

TEST(Speech, AlignmentsHaveTheSameBitsWhateverElseRuns) {
  expect_alignments_with_same_bits("float32");
  expect_alignments_with_same_bits("bfloat16");
}

std::vector<Request> make_load(const std::vector<Window>& windows) {
  std::vector<Request> requests;
  for (uint64_t id = 1; id <= 12; ++id) {
    requests.push_back(make_request(id, windows[id % 2], id % 3 > 0, 20 + static_cast<int32_t>(id),
                                    id % 4 == 0 ? 0.9f : 0.0f));
    // The prompt is longer than a source has rows.
    Request& request = requests.back();
    if (id % 5 == 0) request.token_ids.insert(request.token_ids.begin(), 70, TokenId{40});
    request.num_prompt_tokens = request.num_tokens();
  }
  return requests;
}

void expect_same_bits(const std::string& dtype) {
  const test::LawLoad load{.requests = make_load(read_golden()), .few_encoder_tokens = kRows};
  test::ModelSystem system(open_files(), dtype);
  const auto alone = test::run_alone(system, load.requests);
  EXPECT_NE(alone.at(1).token_ids, alone.at(2).token_ids) << "the recordings make no difference";
  const test::LawStats stats = test::expect_same_bits(system, load, alone);
  EXPECT_EQ(stats.crowd.num_encoded, 2) << "each recording is encoded once";
  EXPECT_EQ(stats.chunks.num_encoded, 2);
  EXPECT_EQ(test::expect_same_in_turn(system, load, alone), std::ssize(load.requests))
      << "room for one recording: it comes and goes";
  test::ModelSystem threads(open_files(), dtype, 3);
  test::expect_same_of_threads(threads, load, alone);
}

TEST(Speech, SameBitsWhateverElseRuns) { expect_same_bits("float32"); }
TEST(Speech, SameBitsInBfloat16) { expect_same_bits("bfloat16"); }

TEST(Speech, ARecordingThatCannotBeEncodedFailsItsRequestAlone) {
  test::ModelSystem system(open_files());
  const std::vector<Window> windows = read_golden();
  auto wrong = std::make_shared<MediaItem>(*windows[0].item);
  wrong->key = "wrong";
  wrong->bands[3] = NAN;
  StepPlan plan;
  plan.media_inputs = {wrong, windows[0].item};
  for (int32_t id = 1; id <= 2; ++id) {
    const std::shared_ptr<const MediaItem> item = id == 1 ? wrong : windows[0].item;
    const Request request = make_request(static_cast<uint64_t>(id), windows[0], false, 1);
    plan.new_requests.push_back({.id = request.id,
                                 .token_ids = request.token_ids,
                                 .num_prompt_tokens = request.num_tokens(),
                                 .params = request.params,
                                 .media = {MediaSpan::of_source(item)}});
    plan.scheduled.push_back(
        {.id = request.id, .num_computed_tokens = 0, .num_scheduled_tokens = request.num_tokens()});
    plan.block_updates.push_back({.request_index = id - 1, .block = BlockId(id)});
    plan.total_num_scheduled_tokens += request.num_tokens();
  }
  const auto result = system.runner().execute(plan);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_NE(result->requests[0].status.message().find("NaN or infinity"), std::string::npos);
  EXPECT_TRUE(result->requests[1].status.ok());
}

}  // namespace
}  // namespace quire
