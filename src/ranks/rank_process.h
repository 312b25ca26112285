// Ranks may be processes of their own: the first one is an executor to its engine
// (leading_executor.h), the others do what it says.
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

// RankProcess says which process of how many this is. `size` is a multiple of `num_stages`, and
// each stage is so many ranks. The first ones are the last stage: so the engine, which the first
// rank runs under, is where tokens are sampled, and plans and results do not travel. Behind them
// come the first stage, the second one and so on.
struct RankProcess {
  int rank = 0;
  int size = 1;
  int num_stages = 1;
  int num_on_host = 1;  // ranks of this machine, which share its memory and its cores
  std::string address = "127.0.0.1";
  uint16_t port = 29500;
  RankTransport transport = RankTransport::kFastest;  // of the exchanges within a stage

  int ranks_per_stage() const { return size / num_stages; }
  PipelineStage stage() const {
    return {(rank / ranks_per_stage() + num_stages - 1) % num_stages, num_stages};
  }
  int rank_in_stage() const { return rank % ranks_per_stage(); }
  // These return the first rank of this stage, and the same rank of the stages before and behind
  // this one.
  int first_of_stage() const { return rank - rank_in_stage(); }
  int previous() const { return (rank + size - ranks_per_stage()) % size; }
  int next() const { return (rank + ranks_per_stage()) % size; }
};

// Returns ok when the first rank has ended. kUnavailable: it is gone without a word. Other errors
// are those of LeadingExecutor::create().
Status follow_first_rank(const ModelRunnerOptions& options, const RankProcess& process);

}  // namespace quire
