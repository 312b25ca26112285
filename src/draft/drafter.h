// A Drafter guesses the next tokens of requests, so that one step can verify several of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "core/request.h"
#include "draft/row_times.h"

namespace quire {

// A number, from 0, for where a draft comes from and how sure its drafter is; each drafter assigns
// its own. The accepted drafts are counted separately for each source.
using DraftSource = int32_t;
inline constexpr DraftSource kMaxDraftSources = 32;

struct DraftClass {
  DraftSource source = 0;
  // The assumed probability that such a draft is accepted if those before it are, until enough
  // drafts have been counted.
  double prior = 0.6;
  bool from_prediction = false;  // the draft is the client's: SamplingParams::prediction_token_ids
};

struct DraftQuery {
  const Request* request = nullptr;
  int32_t max_drafts = 0;  // >= 1

  // The answer: at most max_drafts tokens that may follow request->token_ids, in order. They are
  // valid until the next call.
  std::span<const TokenId> token_ids;
  DraftClass draft_class;
};

// The cost and the class of a model's drafts, which are known before the drafts are made.
struct DraftingCost {
  RowTimes step_times;  // of the draft model's steps; each drafts one token for some requests
  DraftClass draft_class;
};

// Drafts change how soon tokens come, but not which ones: a step samples every row as it would
// without drafts, and a draft is accepted only if it equals the sample. Only the scheduler's thread
// uses a drafter.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Answers the queries, each of another request. It is called when a step is planned that samples
  // the requests' next tokens. The answers are a function of the calls so far.
  virtual void propose(std::span<DraftQuery> queries) = 0;

  // Called when the request has ended.
  virtual void forget(RequestId id) = 0;

  // Returns the cost of a draft, or null if drafts cost next to nothing; then the scheduler asks
  // for all drafts that may be useful.
  virtual const DraftingCost* cost() const { return nullptr; }
};

}  // namespace quire
