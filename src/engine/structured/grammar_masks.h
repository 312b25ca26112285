// GrammarMasks makes the masks of one choice whose text follows a grammar
// (output/token_mask_source.h), on worker threads, each as soon as the token before it is known.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/output/token_mask_source.h"
#include "engine/structured/compiled_grammars.h"
#include "engine/structured/mask_workers.h"
#include "tokenizer/tokenizer.h"

namespace quire {

struct GrammarMasksOptions {
  // End the text: allowed where it is complete, and a special token also where the grammar names it
  // (gpt-oss ends a reply by the mark that ends a call).
  std::vector<TokenId> eos_token_ids;
  std::vector<TokenId> text_eos_token_ids;  // those of them that are no special tokens
  std::string begins_after;                 // StructuredOutputs::begins_after
  std::string field;                        // StructuredOutputs::field
  size_t max_forced_bytes = 0;              // StructuredOutputOptions::max_forced_bytes
};

class GrammarMasks final : public TokenMaskSource {
 public:
  // `tokenizer` and `workers` outlive it.
  GrammarMasks(std::shared_ptr<const GrammarTicket> ticket, const Tokenizer& tokenizer,
               MaskWorkers& workers, GrammarMasksOptions options);

  Status accept(std::span<const TokenId> token_ids) override;
  // Waits a little for a mask that is being made, never for a grammar.
  bool ready() override;
  std::span<const TokenId> forced() const override;
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override;
  void begin(std::span<const TokenId> drafts) override;
  // Waits a little for masks behind drafts.
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override;

 private:
  // What a job works on. Between jobs it is the engine thread's, but for the matcher, which the job
  // of a path that was late may still have: whoever wants it locks it.
  struct State {
    std::mutex mutex;
    std::unique_ptr<grammar::Matcher> matcher;
    std::vector<TokenId> new_token_ids;  // not yet accepted
    std::vector<uint32_t> mask;          // of the tokens that may come next
    TokenId last_token_id = -1;          // accepted last; -1: none was
    std::vector<TokenId> forced;         // that spell what must come next
    Status status;
  };

  // The masks behind drafts, one after the other.
  struct Path {
    std::vector<TokenId> drafts;
    std::vector<std::vector<uint32_t>> masks;  // [drafts]
    std::atomic<size_t> num_made{0};           // of which the engine may read
    std::atomic<bool> is_stopped{false};       // nobody waits for the rest
  };

  void start();
  Status check() const;
  // How many of `token_ids` belong to what comes before the grammar's text.
  size_t skip_reasoning(std::span<const TokenId> token_ids);
  // How many of `token_ids` come before the one with which the reasoning ends; `tail` is the text
  // before them, cut to what may be a part of its end.
  size_t count_before_begin(std::string& tail, std::span<const TokenId> token_ids) const;
  static void advance(State& state, const Tokenizer& tokenizer, const GrammarMasksOptions& options);
  static void follow(State& state, Path& path, const GrammarMasksOptions& options);
  static Status fill_row(grammar::Matcher& matcher, const GrammarMasksOptions& options,
                         std::vector<uint32_t>& mask);

  const std::shared_ptr<const GrammarTicket> ticket_;
  const Tokenizer& tokenizer_;
  MaskWorkers& workers_;
  const std::shared_ptr<const GrammarMasksOptions> options_;  // shared with the jobs
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<MaskWorkers::Job> job_;  // null: none was posted for the tokens so far
  std::shared_ptr<Path> path_;             // of the step; null: it has no drafts
  std::shared_ptr<MaskWorkers::Job> path_job_;
  std::chrono::steady_clock::time_point deadline_;
  bool is_waiting_for_begin_;
  std::string reasoning_tail_;  // the last bytes of the text before the grammar's
};

}  // namespace quire
