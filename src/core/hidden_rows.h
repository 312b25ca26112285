// HiddenRows: hidden states that a served model leaves for a model that drafts for it (Medusa,
// EAGLE, MTP).
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

// Which hidden states are kept for each computed token. With `layers`: the residual streams that
// enter these layers, concatenated. Without: the input of the head, after the final norm.
struct HiddenRowsSpec {
  std::vector<int32_t> layers = {};
  bool sampled_only = false;  // keep only the tokens after which the step samples
};

// A request as its executor has it at the end of a step.
struct HiddenText {
  RequestId id;
  std::span<const TokenId> token_ids;  // prompt, then output
  int32_t num_prompt_tokens = 0;
  std::shared_ptr<const SamplingParams> params = {};
  bool may_draft = true;
};

// Rows of hidden states by request and position. The executor of the served model puts them as it
// computes, replacing older ones; the drafter drops them once they are used. Used by one thread.
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

  // Stores the row of `position`. All rows of a request have the same size. It drops the rows at
  // and after `position`, since they belong to other tokens, and all older rows if there is a gap
  // before it.
  void put(RequestId id, int32_t position, std::span<const float> row);

  Range range(RequestId id) const;  // empty when there are none
  // Returns the row of a position in range().
  std::span<const float> row(RequestId id, int32_t position) const;

  void drop_before(RequestId id, int32_t position);
  void drop_from(RequestId id, int32_t position);
  void forget(RequestId id);

  int64_t num_rows() const;  // of all requests

  // The position in the text of the first token that the drafter computes; 0 unless the drafter
  // sets it. The drafter samples with the random numbers of the tokens' positions in the text.
  void set_first_position(RequestId id, int32_t position) { first_positions_[id] = position; }
  int32_t first_position(RequestId id) const;

  // The executor calls the listener at the end of each step with the requests that it has computed,
  // for a drafter that uses their rows at once.
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
