// Options with which tests run golden models on several ranks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "exec/testing/l4_support.h"

namespace quire::test {

inline constexpr int32_t kRankBlocks = 2048;
inline const KvPlan kRankPlan{.num_blocks = kRankBlocks, .num_state_blocks = kRankBlocks};

// Returns the options of a model with one thread for each rank. `model_file` is a path that
// ModelFiles::open() takes.
inline ModelRunnerOptions rank_options_of(const std::string& model_file, const std::string& dtype) {
  auto files = ModelFiles::open(model_file);
  QUIRE_CHECK(files.ok(), "{}", files.status().message());
  ModelRunnerOptions options;
  options.files = std::make_shared<const ModelFiles>(std::move(*files));
  options.dtype = dtype;
  options.kv_cache_memory_bytes = int64_t{256} << 20;
  options.threads = 1;
  options.max_num_batched_tokens = 512;
  options.max_num_seqs = 64;
  options.max_logits_bytes = 5 * 160 * 4;  // computes rows of logits in several rounds
  options.state_block_size = 16;
  return options;
}

// Does the same for a golden model, by its name.
inline ModelRunnerOptions rank_options(const std::string& golden, const std::string& dtype) {
  return rank_options_of(golden_model(golden_dir(golden)), dtype);
}

// Requests for law L4 have fewer output tokens here: ranks meet many times in each step, and with
// fewer cores than ranks each meeting costs thread switches.
inline constexpr int32_t kRankOutputTokens = 8;

inline DriverRequest rank_request(uint64_t id) {
  DriverRequest request = make_request(id, 5, kPromptTokens);
  request.params.max_tokens = kRankOutputTokens;
  return request;
}

// Returns rank_request(id) among 32 others.
inline std::vector<DriverRequest> rank_crowd(uint64_t id) {
  std::vector<DriverRequest> crowd = make_crowd(id, 16);
  for (DriverRequest& request : crowd) request.params.max_tokens = kRankOutputTokens;
  return crowd;
}

// Every prompt of the crowd takes several steps.
inline const DriverOptions kRankChunks{.chunk = 23, .step_tokens = 300};

}  // namespace quire::test
