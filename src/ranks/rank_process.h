// Ranks may be processes of their own: the first one is an executor to its engine
// (leading_executor.h), and the others follow it.
//
//   // on the others, until the first rank ends or is gone:
//   QUIRE_RETURN_IF_ERROR(follow_first_rank(options, {.rank = 1, .size = 2}));
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "comm/process_ranks.h"
#include "exec/model_runner.h"

namespace quire {

// Says which process this is, and of how many. `size` is a multiple of `num_stages`, and each stage
// has size / num_stages ranks. The first ranks are the last stage, so that tokens are sampled where
// the engine is, in the process of the first rank, and plans and results need not travel. The ranks
// of the first stage come next, then those of the second stage and so on.
struct RankProcess {
  int rank = 0;
  int size = 1;
  int num_stages = 1;
  int num_on_host = 1;  // ranks of this machine, which divide its memory and cores
  std::string address = "127.0.0.1";
  uint16_t port = 29500;
  RankTransport transport = RankTransport::kFastest;  // for the exchanges within a stage

  int ranks_per_stage() const { return size / num_stages; }
  PipelineStage stage() const {
    return {(rank / ranks_per_stage() + num_stages - 1) % num_stages, num_stages};
  }
  int rank_in_stage() const { return rank % ranks_per_stage(); }
  // Return the first rank of this stage, and the ranks in the same position of the stages before
  // and after this one.
  int first_of_stage() const { return rank - rank_in_stage(); }
  int previous() const { return (rank + size - ranks_per_stage()) % size; }
  int next() const { return (rank + ranks_per_stage()) % size; }
};

// Follows the first rank, and returns ok when it has ended. kUnavailable: it is gone without a
// goodbye. Other errors are those of LeadingExecutor::create().
Status follow_first_rank(const ModelRunnerOptions& options, const RankProcess& process);

}  // namespace quire
