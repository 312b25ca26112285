// TokenAlignment finds where in its source each token of a request begins (PoolingTask::kAlign). It
// reads the attention of the heads that follow the source (CrossSpec::alignment_heads). The result
// of a request depends on its own tokens and its own source alone (law L4).
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

  // clear() and add() are called before the forward pass. add() makes room in `queries`, behind
  // those of earlier steps, for the queries of the request's tokens of this step, which begin at
  // row `first_row` of the batch. `queries` must not move until the pass is over.
  void clear() { copies_.clear(); }
  void add(const ScheduledRequest& scheduled, const PoolingParams& params, int64_t first_row,
           std::vector<float>& queries);
  std::span<const QueryCopy> wanted_queries() const { return copies_; }

  // Returns one row of one column for each token whose queries are in `queries`: where it begins.
  // The source `key` must be in the source stage.
  PooledOutput align(std::span<const float> queries, const PoolingParams& params,
                     const SourceStage& source, const std::string& key);

 private:
  const CrossSpec& cross_;
  ThreadTeam& team_;
  std::vector<QueryCopy> copies_;
};

}  // namespace quire
