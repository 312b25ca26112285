// Which tokens a request may sample next, where something beside SamplingParams decides it: the
// grammar of its output.
//
//   generation.make_mask_source = [grammar] { return std::make_unique<GrammarMasks>(grammar); };
//
// Before a step that samples for the request the engine asks for the masks of its rows, and after
// it says which tokens came. The request is never planned beyond a token that the source has not
// seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

// A source makes the masks of one choice of a request. The engine thread makes all calls. An error
// ends the choice with it and nothing else.
class TokenMaskSource {
 public:
  virtual ~TokenMaskSource() = default;

  // Takes the next output tokens, in order, each once and all final; after the end of the choice
  // there are no calls. It begins the next masks and does not wait for them, so that those of other
  // choices can be begun too.
  virtual Status accept(std::span<const TokenId> token_ids) = 0;

  // Returns whether fill() can answer without a wait. It is asked before every step, from make()
  // and accept() on until it returns true; meanwhile only this choice waits. It may take a moment.
  virtual bool ready() { return true; }

  // Returns tokens that spell what must follow the accepted ones, to be drafted, or nothing where
  // more than one text may follow. The model may spell it otherwise. It is asked when ready().
  virtual std::span<const TokenId> forced() const { return {}; }

  // How many of `drafts`, tokens that may follow the accepted ones, the masks allow, one behind the
  // other. Drafts from there on are dropped.
  virtual Result<int32_t> count_allowed(std::span<const TokenId> drafts) = 0;

  // Says which drafts fill() will be called with, before it is for any choice of the step, so that the
  // masks behind drafts of all of them are made at the same time.
  virtual void begin(std::span<const TokenId> drafts) { (void)drafts; }

  // Fills `masks`, [drafts.size() + 1, words_per_mask(vocab_size)]: mask i says which tokens may
  // follow the accepted ones and drafts[0, i), which are all allowed. Bit t % 32 of word t / 32 is
  // token t. Returns false when every token may come; then `masks` is left alone. The words come as
  // zeros. A mask behind a draft that is late stays zero: the drafts count as wrong from there on.
  virtual Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) = 0;
};

// Makes the source of one choice; each choice of a request has its own. The engine thread calls it,
// so it must be cheap. Null: every token may come.
using MakeTokenMaskSource = std::function<std::unique_ptr<TokenMaskSource>()>;

}  // namespace quire
