// TokenAlignment finds where in its source each token of a request begins (PoolingTask::kAlign), by
// the attention of the heads that know it (CrossSpec::alignment_heads). What a request gets depends
// on its own tokens and its own source alone (law L4).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/threads/thread_team.h"
#include "core/step.h"
#include "exec/sources/source_stage.h"
#include "nn/decoder/cross_block.h"

namespace quire {

// Borrows the spec and the team. One thread at a time may use it.
class TokenAlignment {
 public:
  TokenAlignment(const DecoderSpec& spec, ThreadTeam& team) : cross_(spec.cross), team_(team) {}

  // Comes before the forward pass: it adds the request's tokens of the step, which begin at
  // `first_row` of the batch, to `queries`, which has those so far. They stay where they are until
  // the pass is over.
  void clear() { copies_.clear(); }
  void add(const ScheduledRequest& scheduled, const PoolingParams& params, int64_t first_row,
           std::vector<float>& queries);
  std::span<const QueryCopy> wanted_queries() const { return copies_; }

  // One row of one column for each token whose queries these are. The source is there.
  PooledOutput align(std::span<const float> queries, const PoolingParams& params,
                     const SourceStage& source, const std::string& key);

 private:
  const CrossSpec& cross_;
  ThreadTeam& team_;
  std::vector<QueryCopy> copies_;
};

}  // namespace quire
