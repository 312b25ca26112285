// PlanDriver drives an Executor with plans that it makes itself, for tests of everything below the
// scheduler. It decides chunks, batch mates, reused blocks and preemptions, none of which may
// change a request's output. If an executor wants several steps under way, each step gets a part of
// the requests.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/executor.h"

namespace quire::test {

struct DriverRequest {
  uint64_t id = 0;
  std::vector<TokenId> prompt = {};
  SamplingParams params = {};  // stop rules are ignored, max_tokens is not
  std::shared_ptr<const Adapter> adapter = {};
  // Returns the token mask for the token after those given; empty function: no masks.
  std::function<std::vector<uint32_t>(std::span<const TokenId>)> mask = {};
};

struct DriverOutput {
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  Status status;
};

struct DriverOptions {
  int32_t chunk = 1 << 20;    // most tokens of one request per step
  int32_t step_tokens = 512;  // most tokens per step
  // Above 0: this many drafts follow each request's known tokens, and every third draft is wrong.
  // The right ones are taken from `outputs`, by request id.
  int32_t num_drafts = 0;
  std::map<uint64_t, std::vector<TokenId>> outputs = {};
  int32_t preempt_after_output =
      0;  // > 0: each request is dropped once, after so many output tokens, and sent again
};

// Returns a mask that forbids one of every three tokens, depending on the last token.
std::vector<uint32_t> third_mask(int32_t vocab_size, std::span<const TokenId> token_ids);

// Use one per executor: it hands out every block of each pool only once, so that tests cannot
// confuse requests.
class PlanDriver {
 public:
  PlanDriver(Executor& executor, int32_t num_blocks)
      : executor_(executor), num_blocks_(num_blocks) {}

  int32_t num_accepted_drafts() const { return num_accepted_; }

  // Runs all requests together to their max_tokens.
  std::map<uint64_t, DriverOutput> run(const std::vector<DriverRequest>& requests,
                                       const DriverOptions& options);

  // As run(), for one request whose first `num_blocks` logical blocks are those that request
  // `source` has computed.
  DriverOutput run_after_hit(const DriverRequest& request, uint64_t source, int32_t num_blocks,
                             const DriverOptions& options);

 private:
  struct Live {
    DriverRequest request;
    std::vector<TokenId> token_ids;
    int32_t num_computed = 0;
    bool sent = false;
    bool preempted = false;
    std::vector<std::vector<BlockId>> tables;  // per group
    DriverOutput output;
    bool done() const;
  };

  BlockId take_block(KvPool pool);
  std::vector<TokenId> draft(const Live& live, const DriverOptions& options);
  void add_to_plan(Live& live, int32_t num_tokens, std::span<const TokenId> drafts, StepPlan& plan);
  struct Step {
    StepPlan plan;
    std::vector<Live*> scheduled;
  };
  // Makes a step of every num_parts-th request, starting with request number `part`.
  Step make_step(std::vector<Live>& lives, const DriverOptions& options, size_t part,
                 size_t num_parts);
  void finish(const Step& step, const Result<StepResult>& result, const DriverOptions& options);
  void run_all(std::vector<Live>& lives, const DriverOptions& options);

  Executor& executor_;
  int32_t num_blocks_;
  std::array<int32_t, kNumKvPools> next_block_ = {1, 1};  // by pool
  int32_t num_drafted_ = 0;
  int32_t num_accepted_ = 0;
  std::vector<RequestId> dropped_;
  std::map<uint64_t, std::vector<std::vector<BlockId>>> tables_of_;  // by request id
};

}  // namespace quire::test
