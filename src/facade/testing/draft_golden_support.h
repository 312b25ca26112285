// For tests: drafters of hidden states, and the drafts of an oracle (tools/make_draft_goldens.py).
// The drafters are tiny random heads beside a served model that runs as in the engine, in chunks
// and with drafts that are refused.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/executor.h"
#include "exec/model_plan.h"
#include "facade/speculation/model_drafter.h"

namespace quire::test {

struct GoldenDrafts {
  size_t num_tokens = 0;
  std::vector<TokenId> drafts;
};

struct DraftGolden {
  std::filesystem::path target;
  std::vector<TokenId> token_ids;
  size_t num_prompt_tokens = 0;
  std::vector<GoldenDrafts> steps;
};

std::filesystem::path all_goldens();

inline constexpr int32_t kNumDrafts = 3;

SpeculativeConfig draft_config(const std::string& name);
ModelRunnerOptions draft_options(const std::filesystem::path& target);

// The served model with one request at a time, and its drafter.
class Served {
 public:
  // `load` makes the executors of both models.
  Served(const std::string& name, const LoadExecutor& load);

  const DraftGolden& golden() const { return golden_; }
  Drafter& drafter() { return *drafter_.drafter; }
  HiddenRows& rows() { return *drafter_.hidden_rows; }

  // Starts a request. `computed` is the number of first tokens that another request has computed in
  // the same blocks.
  void start(uint64_t id, size_t num_tokens, int32_t computed = 0);
  // Runs a step of num_tokens tokens with drafts after them. The sampled tokens join the request.
  void step(int32_t num_tokens, std::span<const TokenId> drafts = {});
  std::vector<TokenId> propose();
  void end();

  const Request& request() const { return request_; }
  int32_t computed() const { return computed_; }

 private:
  DraftGolden golden_;
  ModelDrafter drafter_;
  std::unique_ptr<Executor> runner_;
  Request request_;
  StepPlan plan_;
  int32_t computed_ = 0;
  bool verifies_ = true;
};

}  // namespace quire::test
