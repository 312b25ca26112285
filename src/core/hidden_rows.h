// HiddenRows are hidden states that a served model hands to one that drafts for it (Medusa, EAGLE,
// MTP).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "core/sampling_params.h"

namespace quire {

// Which states: of each computed token the residual streams that enter some layers, one behind the
// other; without layers what the head reads, behind the final norm.
struct HiddenRowsSpec {
  std::vector<int32_t> layers = {};
  bool sampled_only = false;  // of those tokens alone behind which the step samples
};

// A request as its executor knows it behind a step.
struct HiddenText {
  RequestId id;
  std::span<const TokenId> token_ids;  // prompt, then output
  int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams> params = {};
  bool may_draft = true;
};

// Rows by request and position. The served model's executor puts them as it computes, over what was
// there; who drafts drops them once they are used. One thread.
class HiddenRows {
 public:
  // Positions [begin, end).
  struct Range {
    int32_t begin = 0;
    int32_t end = 0;
    bool contains(int32_t position) const { return begin <= position && position < end; }
  };

  explicit HiddenRows(HiddenRowsSpec spec) : spec_(std::move(spec)) {}

  const HiddenRowsSpec& spec() const { return spec_; }

  // All rows of a request are of one size. Rows at and behind `position` are of other tokens now, and
  // rows before a gap are of no use: both go.
  void put(RequestId id, int32_t position, std::span<const float> row);

  Range range(RequestId id) const;  // empty: there are none
  // Returns the row of a position in range().
  std::span<const float> row(RequestId id, int32_t position) const;

  void drop_before(RequestId id, int32_t position);
  void drop_from(RequestId id, int32_t position);
  void forget(RequestId id);

  int64_t num_rows() const;  // of all requests

  // Where in the text the tokens begin that who drafts computes; 0 unless it says so. Its samples take
  // the noise of their places in the text.
  void set_first_position(RequestId id, int32_t position) { first_positions_[id] = position; }
  int32_t first_position(RequestId id) const;

  // The executor calls it behind each step, with the requests that it has computed, for whoever
  // uses their rows at once.
  using Listener = std::function<void(std::span<const HiddenText>)>;
  void set_listener(Listener listener) { listener_ = std::move(listener); }
  void end_step(std::span<const HiddenText> texts) const {
    if (listener_) listener_(texts);
  }

 private:
  struct Rows {
    int32_t begin = 0;
    size_t width = 1;
    std::vector<float> data;
    int32_t end() const { return begin + static_cast<int32_t>(data.size() / width); }
  };

  const HiddenRowsSpec spec_;
  std::unordered_map<RequestId, Rows> requests_;
  std::unordered_map<RequestId, int32_t> first_positions_;
  Listener listener_;
};

}  // namespace quire
