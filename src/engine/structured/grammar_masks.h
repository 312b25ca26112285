// GrammarMasks makes the masks of one choice whose text follows a grammar
// (output/token_mask_source.h). Worker threads make each mask as soon as the token before it is
// known.
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
  // Tokens that end the text: allowed where the text is complete, and special ones also where the
  // grammar names them (gpt-oss ends a reply by the mark that ends a call).
  std::vector<TokenId> eos_token_ids;
  std::vector<TokenId> text_eos_token_ids;  // those of eos_token_ids that are not special tokens
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
  // Waits a little for a mask that is being made, but never for a grammar.
  bool ready() override;
  std::span<const TokenId> forced() const override;
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override;
  void begin(std::span<const TokenId> drafts) override;
  // Waits a little for the masks behind drafts.
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override;

 private:
  // The data of a job. Between jobs the engine thread owns it, except the matcher, which the late
  // job of a path may still use: every user of the matcher locks it.
  struct State {
    std::mutex mutex;
    std::unique_ptr<grammar::Matcher> matcher;
    std::vector<TokenId> new_token_ids;  // not yet accepted by the matcher
    std::vector<uint32_t> mask;          // the tokens that may come next
    TokenId last_token_id = -1;          // the last accepted token; -1: none
    std::vector<TokenId> forced;         // tokens for the text that must come next
    Status status;
  };

  // The masks behind drafts, made one after the other.
  struct Path {
    std::vector<TokenId> drafts;
    std::vector<std::vector<uint32_t>> masks;  // [drafts]
    std::atomic<size_t> num_made{0};           // masks that the engine may read
    std::atomic<bool> is_stopped{false};       // no one needs the rest
  };

  void start();
  Status check() const;
  // Returns how many of `token_ids` come before the grammar's text.
  size_t skip_reasoning(std::span<const TokenId> token_ids);
  // Returns how many of `token_ids` come before the token that ends the reasoning; `tail` is the
  // text before them, cut to what may be a part of its end.
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
  std::shared_ptr<MaskWorkers::Job> job_;  // null: none has been posted for the tokens so far
  std::shared_ptr<Path> path_;             // of the current step; null: it has no drafts
  std::shared_ptr<MaskWorkers::Job> path_job_;
  std::chrono::steady_clock::time_point deadline_;
  bool is_waiting_for_begin_;
  std::string reasoning_tail_;  // the last bytes of the text before that of the grammar
};

}  // namespace quire
