// Who guesses the next tokens of requests, so that one step can verify several of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "core/request.h"

namespace quire {

// Guesses change how soon tokens come and never which: a step samples every row as it would
// without drafts, and a draft counts only where it equals the sample. One thread, the scheduler's.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // At most `max_drafts` (>= 1) tokens that may follow request.token_ids, in order. Asked when a
  // step is planned that samples the request's next token; what it answers is a function of the
  // calls before. Valid until the next call.
  virtual std::span<const TokenId> propose(const Request& request, int32_t max_drafts) = 0;

  // The request has ended.
  virtual void forget(RequestId id) = 0;
};

}  // namespace quire
