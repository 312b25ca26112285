// These helpers are shared by tests of models that read pictures, recordings and texts: their
// goldens, and law L4 over one load of requests.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/base64.h"
#include "tests/laws/model_system.h"
#include "tests/support/test_data.h"

namespace quire::test {

inline std::shared_ptr<const ModelFiles> open_model_files(const std::filesystem::path& folder) {
  auto files = ModelFiles::open(folder.string());
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  return std::make_shared<const ModelFiles>(std::move(*files));
}

// The settings for opening a tower alone, in float32.
struct TowerPlace {
  explicit TowerPlace(std::shared_ptr<const ModelFiles> model)
      : files(std::move(model)),
        source(TensorSource::open(*files).value()),
        team(ThreadTeam::create({.num_threads = 2}).value()),
        stream(team, best_isa()),
        packing(stream) {}

  std::shared_ptr<const ModelFiles> files;
  TensorSource source;
  ThreadTeam team;
  HostStream stream;
  HostPacking packing;
  WeightOptions options{.dtype = DType::kF32};
};

// Returns float32 values, which are stored little-endian in base64.
inline std::vector<float> floats_of(const boost::json::value& base64) {
  const std::string bytes = *base64_decode(std::string(base64.as_string()));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline std::vector<TokenId> ids_of(const boost::json::value& list) {
  return boost::json::value_to<std::vector<TokenId>>(list);
}

// Returns the norm of the difference divided by the norm of `expected`.
inline double relative_error(std::span<const float> got, std::span<const float> expected) {
  QUIRE_CHECK(got.size() >= expected.size(), "{} of {} values", got.size(), expected.size());
  double error = 0.0, norm = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2.0);
    norm += std::pow(double{expected[i]}, 2.0);
  }
  return std::sqrt(error / norm);
}

// Returns the sampling parameters of these tests: log-probabilities are returned, and nothing ends
// a request early.
inline std::shared_ptr<SamplingParams> law_params(uint64_t seed, int32_t max_tokens,
                                                  float temperature) {
  auto params = std::make_shared<SamplingParams>();
  params->max_tokens = max_tokens;
  params->temperature = temperature;
  params->seed = seed;
  params->logprobs = 1;
  params->ignore_eos = true;
  return params;
}

inline std::map<uint64_t, Output> run_alone(ModelSystem& system, const std::vector<Request>& load) {
  std::map<uint64_t, Output> alone;
  for (const Request& request : load) {
    alone.merge(
        system.run({request}, {.max_num_batched_tokens = 256, .max_num_seqs = 1}, 100, true));
  }
  return alone;
}

struct LawLoad {
  std::vector<Request> requests;
  int32_t chunk_tokens = 17;  // token limit of the steps that cut prompts
  // Encoder rows that the cache holds when memory is short.
  int32_t few_encoder_tokens = 0;
};

// Counts of encodings and preemptions in the runs of expect_same_bits().
struct LawStats {
  RunStats crowd, chunks, pressed;
};

// Checks that the load gets the bits of `alone` in one batch, in small steps, and with few blocks
// in both caches.
inline LawStats expect_same_bits(ModelSystem& system, const LawLoad& load,
                                 const std::map<uint64_t, Output>& alone) {
  const auto num_requests = static_cast<int32_t>(load.requests.size());
  LawStats stats;
  expect_same(
      system.run(load.requests, {.max_num_batched_tokens = 256, .max_num_seqs = num_requests}, 300,
                 true, &stats.crowd),
      alone);
  expect_same(
      system.run(load.requests, {.max_num_batched_tokens = load.chunk_tokens, .max_num_seqs = 4},
                 300, false, &stats.chunks),
      alone);
  expect_same(system.run(load.requests,
                         {.max_num_batched_tokens = 48,
                          .max_num_seqs = num_requests,
                          .reserve_full_isl = false,
                          .encoder_cache_tokens = load.few_encoder_tokens},
                         24, true, &stats.pressed),
              alone);
  EXPECT_GT(stats.pressed.num_preemptions, 0);
  return stats;
}

// Runs one request after the other with little room for encoder outputs; returns the number of
// encodings.
inline int64_t expect_same_in_turn(ModelSystem& system, const LawLoad& load,
                                   const std::map<uint64_t, Output>& alone) {
  RunStats stats;
  expect_same(system.run(load.requests,
                         {.max_num_batched_tokens = 48,
                          .max_num_seqs = 1,
                          .encoder_cache_tokens = load.few_encoder_tokens},
                         100, false, &stats),
              alone);
  return stats.num_encoded;
}

// `system` has another number of threads than the one that made `alone`.
inline void expect_same_of_threads(ModelSystem& system, const LawLoad& load,
                                   const std::map<uint64_t, Output>& alone) {
  const auto num_requests = static_cast<int32_t>(load.requests.size());
  expect_same(system.run(load.requests,
                         {.max_num_batched_tokens = 64, .max_num_seqs = num_requests}, 300, true),
              alone);
}

}  // namespace quire::test
