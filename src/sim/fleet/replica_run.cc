// This file has runs of steps in which every running request computes one token and nothing else
// can happen. Their times are worked out one by one, everything else is done for all of them at
// once.
#include <algorithm>

#include "base/check.h"
#include "sim/fleet/replica.h"
#include "sim/workload/token_content.h"

namespace quire::sim {
namespace {

constexpr int32_t kMaxRun = 256;

}  // namespace

class Replica::Tokens final : public DecodeTokens {
 public:
  explicit Tokens(Replica& replica) : replica_(replica) {}
  void next_tokens(RequestId id, int32_t position, std::span<TokenId> out) override {
    const Slot* slot = replica_.find(id);
    QUIRE_CHECK(slot != nullptr, "request {} decodes after its end", id.value);
    const size_t request = static_cast<size_t>(slot->leg.request);
    fill_content(replica_.sinks_.workload->requests[request].content, position, out);
  }

 private:
  Replica& replica_;
};

// Plans a run from now on, whose last step a delivery may cut off. Returns false when an ordinary
// step must be taken.
bool Replica::plan_run(int64_t now_ns) {
  if (!spec_.fast_forward || sinks_.on_step || !last_step_decoded_ || tier_ ||
      !in_flight_.empty() || spec_.pipeline_depth > 1 || (overlapped_ && !pending_.empty())) {
    return false;
  }
  int32_t num_steps = std::min(kMaxRun, scheduler_.max_decode_run());
  if (overlapped_) num_steps = std::min(num_steps, spare_rounds() * kv_.block_size());
  if (num_steps < kMinRun) return false;
  shape_.clear();
  std::array<int32_t, kMaxWindows> num_inside{};  // requests whose context is within the window
  const std::span<const int32_t> windows = spec_.timer->windows();
  for (const int32_t index : running_) {
    const int32_t context = slots_[static_cast<size_t>(index)].known_tokens;
    shape_.add(context - 1, 1, true, windows);
    for (size_t w = 0; w < windows.size(); ++w) {
      if (context >= windows[w]) continue;
      ++num_inside[w];
      num_steps = std::min(num_steps, windows[w] - context);
    }
  }
  int64_t stop_ns = horizon_ns_;
  for (const Pending& p : pending_) stop_ns = std::min(stop_ns, p.ready_ns);
  const int32_t batch = shape_.num_requests;
  run_begin_ns_ = now_ns;
  run_host_ns_ = spec_.timer->host_ns(shape_);
  run_kv_tokens_ = shape_.decode.context;
  int64_t end_ns = now_ns;
  for (int32_t i = 0; i < num_steps && end_ns < stop_ns; ++i) {
    end_ns += spec_.timer->time(shape_).total_ns;
    run_ends_ns_.push_back(end_ns);
    shape_.decode.context += batch;
    ++shape_.decode.max_context;
    for (size_t w = 0; w < windows.size(); ++w) shape_.decode.windowed[w] += num_inside[w];
  }
  return !run_ends_ns_.empty();
}

void Replica::finish_run() {
  const size_t num_steps = run_ends_ns_.size();
  const auto batch = static_cast<int64_t>(running_.size());
  const int32_t num_waiting = this->num_waiting();
  run_ends_us_.resize(num_steps);
  int64_t begin_ns = run_begin_ns_;
  for (size_t i = 0; i < num_steps; ++i) {
    const int64_t end_ns = run_ends_ns_[i];
    run_ends_us_[i] = end_ns / 1000;
    account_step(begin_ns, end_ns - begin_ns, run_kv_tokens_ + static_cast<int64_t>(i) * batch);
    sinks_.stats->timeline.at(end_ns).output_tokens += batch;
    if (i > 0) sinks_.stats->itl.add(end_ns - begin_ns, batch);
    begin_ns = end_ns;
  }
  Tokens tokens(*this);
  scheduler_.run_decodes(run_begin_ns_ / 1000, run_ends_us_, tokens);

  counters_.host_ns += run_host_ns_;
  const auto rest = static_cast<int32_t>(num_steps) - 1;
  for (const int32_t index : running_) {
    Slot& slot = slots_[static_cast<size_t>(index)];
    take_token(slot, run_ends_ns_.front());
    slot.known_tokens += rest;
    slot.last_token_ns = run_ends_ns_.back();
  }
  flush_gaps();
  counters_.host_ns += run_host_ns_ * rest;
  counters_.num_steps += static_cast<int64_t>(num_steps);
  counters_.num_tokens += batch * static_cast<int64_t>(num_steps);
  counters_.num_output_tokens += batch * static_cast<int64_t>(num_steps);
  if (num_waiting > 0) counters_.seq_blocked_ns += run_ends_ns_.back() - run_begin_ns_;
  counters_.peak_kv_blocks = std::max(counters_.peak_kv_blocks, num_kv_blocks_in_use());
  counters_.peak_waiting = std::max(counters_.peak_waiting, num_waiting);
  stage_free_ns_ = run_ends_ns_.back();
  if (overlapped_) visible_ns_ = num_steps > 1 ? run_ends_ns_[num_steps - 2] : run_begin_ns_;
  run_ends_ns_.clear();
}

}  // namespace quire::sim
