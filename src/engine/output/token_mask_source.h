// Which tokens a request may sample next, if a rule beside SamplingParams decides it: the grammar
// of its output.
//
//   generation.make_mask_source = [grammar] { return std::make_unique<GrammarMasks>(grammar); };
//
// Before a step that samples for the request, the engine asks for the masks of its rows, and after
// the step it passes on the tokens. The request is never planned beyond a token that the source has
// not seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

// A source makes the masks of one choice of a request. The engine thread makes all calls. An error
// ends only the choice.
class TokenMaskSource {
 public:
  virtual ~TokenMaskSource() = default;

  // Takes the next output tokens, in order, each once and all final; there are no calls after the
  // choice has ended. It begins to make the next masks and does not wait for them, so that those of
  // other choices can begin too.
  virtual Status accept(std::span<const TokenId> token_ids) = 0;

  // Returns whether fill() can answer without waiting. The engine asks before every step, from the
  // creation and from accept() on until the answer is true; meanwhile only this choice waits. The
  // call may take a moment.
  virtual bool ready() { return true; }

  // Returns tokens for text that must follow the accepted tokens, as drafts; none if more than one
  // text may follow. The model may choose other tokens for that text. Called when ready().
  virtual std::span<const TokenId> forced() const { return {}; }

  // Returns how many of `drafts`, which may follow the accepted tokens, the masks allow in
  // sequence. The engine drops the drafts after those.
  virtual Result<int32_t> count_allowed(std::span<const TokenId> drafts) = 0;

  // Announces the drafts of a later fill(). The engine calls this for all choices of a step before
  // any fill(), so that the masks for all their drafts are made at the same time.
  virtual void begin(std::span<const TokenId> drafts) { (void)drafts; }

  // Fills `masks`, [drafts.size() + 1, words_per_mask(vocab_size)], which is zero at first: mask i
  // says which tokens may follow the accepted ones and drafts[0, i), which are all allowed. Bit t %
  // 32 of word t / 32 is token t. Returns false if every token is allowed; then `masks` stays as it
  // is. A mask behind a draft that is not ready stays zero: the drafts from there on count as
  // wrong.
  virtual Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) = 0;
};

// Makes the source of one choice; each choice of a request has its own. The engine thread calls it,
// so it must be cheap. Null: every token is allowed.
using MakeTokenMaskSource = std::function<std::unique_ptr<TokenMaskSource>()>;

}  // namespace quire
