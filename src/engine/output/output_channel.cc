#include "engine/output/output_channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace quire {
namespace {

int64_t size_bytes(const std::vector<TokenLogprobs>& logprobs) {
  int64_t bytes = 0;
  for (const TokenLogprobs& entry : logprobs) {
    bytes += static_cast<int64_t>(sizeof entry + entry.top.size() * sizeof entry.top[0]);
  }
  return bytes;
}

template <typename T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Merges `later` into `earlier`, an earlier delta of the same choice.
void merge(OutputDelta& earlier, OutputDelta&& later) {
  earlier.text += later.text;
  append(earlier.token_ids, std::move(later.token_ids));
  append(earlier.text_ends_bytes, std::move(later.text_ends_bytes));
  append(earlier.logprobs, std::move(later.logprobs));
  earlier.finish_reason = later.finish_reason;
  earlier.pooled = std::move(later.pooled);
  earlier.stop_reason = std::move(later.stop_reason);
  earlier.times = later.times;
  earlier.drafts = later.drafts;
  earlier.handover = std::move(later.handover);
  earlier.status = std::move(later.status);
}

bool is_failure(const OutputDelta& delta) {
  return delta.finish_reason == FinishReason::kAbort || delta.finish_reason == FinishReason::kError;
}

}  // namespace

int64_t size_bytes(const OutputDelta& delta) {
  return static_cast<int64_t>(sizeof delta + delta.text.size() +
                              delta.token_ids.size() * sizeof(TokenId) +
                              delta.text_ends_bytes.size() * sizeof(int64_t) +
                              delta.pooled.values.size() * sizeof(float)) +
         size_bytes(delta.logprobs);
}

OutputChannel::OutputChannel(int32_t num_choices, StreamLimits limits,
                             std::function<void()> on_ready,
                             std::shared_ptr<std::atomic<int64_t>> total_unread_bytes)
    : limits_(limits),
      on_ready_(std::move(on_ready)),
      total_unread_bytes_(std::move(total_unread_bytes)),
      finished_(static_cast<size_t>(num_choices), false),
      num_unfinished_(num_choices) {}

OutputChannel::~OutputChannel() { count_unread(-unread_bytes_); }

void OutputChannel::count_unread(int64_t num_bytes) {
  unread_bytes_ += num_bytes;
  if (total_unread_bytes_) total_unread_bytes_->fetch_add(num_bytes, std::memory_order_relaxed);
}

bool OutputChannel::has_room(int64_t num_bytes) const {
  if (unread_.empty()) return true;
  const int64_t own = unread_bytes_ + num_bytes;
  if (own > limits_.max_unread_bytes) return false;
  if (!total_unread_bytes_ || own <= StreamLimits::kAlwaysUnreadBytes) return true;
  const int64_t total = total_unread_bytes_->load(std::memory_order_relaxed) + num_bytes;
  return total <= limits_.max_total_unread_bytes;
}

bool OutputChannel::push(OutputDelta delta) {
  const std::lock_guard lock(mutex_);
  const auto choice = static_cast<size_t>(delta.choice_index);
  if (finished_[choice]) return true;
  const int64_t bytes = size_bytes(delta);
  if (!is_failure(delta) && !has_room(bytes)) return false;
  if (delta.finish_reason) {
    finished_[choice] = true;
    --num_unfinished_;
  }
  count_unread(bytes);
  if (unread_.size() >= static_cast<size_t>(limits_.max_unread_deltas)) {
    const auto last = std::find_if(unread_.rbegin(), unread_.rend(), [&](const OutputDelta& d) {
      return d.choice_index == delta.choice_index;
    });
    if (last != unread_.rend()) {
      merge(*last, std::move(delta));
      // The merged delta must not be read before notify(), like everything just pushed, nor may
      // what follows it.
      num_readable_ = std::min(num_readable_, static_cast<size_t>(unread_.rend() - last) - 1);
      return true;
    }
  }
  unread_.push_back(std::move(delta));
  return true;
}

void OutputChannel::notify() {
  {
    const std::lock_guard lock(mutex_);
    num_readable_ = unread_.size();
    ended_ = num_unfinished_ == 0;
  }
  news_.notify_all();
  if (on_ready_) on_ready_();
}

std::optional<OutputDelta> OutputChannel::pop_locked() {
  if (num_readable_ == 0) return std::nullopt;
  OutputDelta delta = std::move(unread_.front());
  unread_.erase(unread_.begin());
  --num_readable_;
  // Merging frees parts of deltas, so the sizes do not add up exactly. The count restarts whenever
  // all is read.
  count_unread(unread_.empty() ? -unread_bytes_ : -size_bytes(delta));
  return delta;
}

std::optional<OutputDelta> OutputChannel::try_pop() {
  const std::lock_guard lock(mutex_);
  return pop_locked();
}

std::optional<OutputDelta> OutputChannel::pop() {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return num_readable_ > 0 || ended_; });
  return pop_locked();
}

bool OutputChannel::done() const {
  const std::lock_guard lock(mutex_);
  return ended_ && unread_.empty();
}

bool OutputChannel::all_pushed() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace quire
