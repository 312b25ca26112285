// Who guesses the next tokens of requests, so that one step can verify several of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "core/request.h"
#include "draft/row_times.h"

namespace quire {

// Where a draft comes from and how sure its drafter is, by drafters' own numbering from 0. How often
// drafts come out is counted for each apart.
using DraftSource = int32_t;
inline constexpr DraftSource kMaxDraftSources = 32;

struct DraftClass {
  DraftSource source = 0;
  // The share of such drafts that is taken to come out, when those before them did, until enough
  // have been counted.
  double prior = 0.6;
  bool from_prediction = false;  // of the client: SamplingParams::prediction_token_ids
};

struct DraftQuery {
  const Request* request = nullptr;
  int32_t max_drafts = 0;  // >= 1

  // The drafter answers with at most max_drafts tokens that may follow request->token_ids, in
  // order. They are valid until the next call.
  std::span<const TokenId> token_ids;
  DraftClass draft_class;
};

// What the drafts of a model cost and which class they belong to is known before they are made.
struct DraftingCost {
  RowTimes step_times;  // of the model's steps: each drafts one token of some requests
  DraftClass draft_class;
};

// Guesses change how soon tokens come and never which: a step samples every row as it would
// without drafts, and a draft counts only where it equals the sample. One thread, the scheduler's.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Answers queries of different requests. Asked when a step is planned that samples the requests'
  // next tokens; what it answers is a function of the calls before.
  virtual void propose(std::span<DraftQuery> queries) = 0;

  // The request has ended.
  virtual void forget(RequestId id) = 0;

  // Returns the cost of a draft, or null when drafts cost next to nothing: then all that may be of
  // use are asked for.
  virtual const DraftingCost* cost() const { return nullptr; }
};

}  // namespace quire
