// A TokenMaskSource whose masks are a function of the output so far. Its masks may be late or fail.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/token_masks.h"
#include "engine/output/token_mask_source.h"

namespace quire::test {

// The settings and counts of the sources of one request.
struct RuleMasksOptions {
  int32_t vocab_size = 1000;
  // Returns whether `token_id` may follow `output`.
  std::function<bool(std::span<const TokenId> output, TokenId token_id)> rule;
  // How many calls of ready() after each accepted token return false.
  int32_t num_late_calls = 0;
  // From this many output tokens on, every token is allowed, fill() fails, or accept() fails.
  size_t free_from = ~size_t{0};
  size_t fill_fails_at = ~size_t{0};
  size_t accept_fails_at = ~size_t{0};
  // How many masks are ready when fill() is called, including the first; masks behind more drafts
  // are late.
  size_t num_masks_in_time = ~size_t{0};
};

inline std::vector<uint32_t> rule_mask(const RuleMasksOptions& options,
                                       std::span<const TokenId> output) {
  if (output.size() >= options.free_from) return {};
  std::vector<uint32_t> mask(static_cast<size_t>(words_per_mask(options.vocab_size)), 0);
  for (TokenId id = 0; id < options.vocab_size; ++id) {
    if (options.rule(output, id)) mask[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
  }
  return mask;
}

class RuleMasks final : public TokenMaskSource {
 public:
  explicit RuleMasks(RuleMasksOptions options)
      : options_(std::move(options)), num_late_calls_(options_.num_late_calls) {}

  Status accept(std::span<const TokenId> token_ids) override {
    for (const TokenId id : token_ids) {
      if (!allows(rule_mask(options_, output_), id)) return internal_error("{} is forbidden", id);
      output_.push_back(id);
    }
    num_late_calls_ = options_.num_late_calls;
    if (output_.size() >= options_.accept_fails_at) return internal_error("grammar budget: accept");
    return {};
  }
  bool ready() override { return num_late_calls_-- <= 0; }
  Result<int32_t> count_allowed(std::span<const TokenId> drafts) override {
    std::vector<TokenId> path = output_;
    int32_t count = 0;
    for (const TokenId id : drafts) {
      if (!allows(rule_mask(options_, path), id)) break;
      path.push_back(id);
      ++count;
    }
    return count;
  }
  Result<bool> fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) override {
    if (output_.size() >= options_.fill_fails_at) return internal_error("grammar budget: fill");
    std::vector<TokenId> path = output_;
    bool any = false;
    const size_t num_words = masks.size() / (drafts.size() + 1);
    for (size_t i = 0; i <= drafts.size() && i < options_.num_masks_in_time; ++i) {
      if (i > 0) path.push_back(drafts[i - 1]);
      const std::vector<uint32_t> mask = rule_mask(options_, path);
      any = any || !mask.empty();
      for (size_t word = 0; word < num_words; ++word) {
        masks[i * num_words + word] = mask.empty() ? ~uint32_t{0} : mask[word];
      }
    }
    return any;
  }

 private:
  const RuleMasksOptions options_;
  int32_t num_late_calls_;
  std::vector<TokenId> output_;
};

inline MakeTokenMaskSource make_rule_masks(const RuleMasksOptions& options) {
  return [options] { return std::make_unique<RuleMasks>(options); };
}

}  // namespace quire::test
