#include "sim/replica/decode_run.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "sim/workload/token_content.h"

namespace quire::sim {
namespace {

constexpr int32_t kMaxRun = 256;

}  // namespace

class DecodeRun::Tokens final : public DecodeTokens {
 public:
  explicit Tokens(SlotTable& slots) : slots_(slots) {}
  void next_tokens(RequestId id, int32_t position, std::span<TokenId> out) override {
    const Slot* slot = slots_.find(id);
    QUIRE_CHECK(slot != nullptr, "request {} decodes after its end", id.value);
    fill_content(slots_.request(slot->leg).content, position, out);
  }

 private:
  SlotTable& slots_;
};

bool DecodeRun::plan(int64_t now_ns, int64_t stop_ns) {
  int32_t num_steps = std::min(kMaxRun, scheduler_.max_decode_run());
  if (num_steps < kMinSteps) return false;
  shape_.clear();
  AdapterCount adapters;
  std::array<int32_t, kMaxWindows> num_inside{};  // requests whose context is within the window
  const std::span<const int32_t> windows = spec_.timer->windows();
  for (const int32_t index : slots_.running()) {
    const int32_t context = slots_.at(index).known_tokens;
    adapters.add(slots_.request(slots_.at(index).leg).adapter);
    shape_.add(context - 1, 1, true, windows);
    for (size_t w = 0; w < windows.size(); ++w) {
      if (context >= windows[w]) continue;
      ++num_inside[w];
      num_steps = std::min(num_steps, windows[w] - context);
    }
  }
  const int32_t batch = shape_.num_requests;
  begin_ns_ = now_ns;
  host_ns_ = spec_.timer->host_ns(shape_);
  kv_tokens_ = shape_.decode.context;
  plan_ends(num_steps, stop_ns, spec_.adapters.step_ns(adapters.count(), batch),
            std::span(num_inside).first(windows.size()));
  return !ends_ns_.empty();
}

// Computes only a few steps at a time, because most runs are cut off early.
void DecodeRun::plan_ends(int32_t num_steps, int64_t stop_ns, int64_t adapters_ns,
                          std::span<const int32_t> num_inside) {
  std::array<int64_t, 32> step_ns;
  int64_t end_ns = begin_ns_;
  while (num_steps > 0 && end_ns < stop_ns) {
    const auto some = std::span(step_ns).first(std::min<size_t>(step_ns.size(), num_steps));
    spec_.timer->time_decodes(shape_, num_inside, some);
    num_steps -= static_cast<int32_t>(some.size());
    for (const int64_t ns : some) {
      if (end_ns >= stop_ns) break;
      end_ns += ns + adapters_ns;
      ends_ns_.push_back(end_ns);
    }
  }
}

void DecodeRun::cut_at(int64_t ns, int64_t num_planned) {
  const auto current = std::lower_bound(ends_ns_.begin(), ends_ns_.end(), ns);
  const int64_t num_left = ends_ns_.end() - current;
  const int64_t num_cut = std::max<int64_t>(0, num_left - 1 - num_planned);
  ends_ns_.resize(ends_ns_.size() - static_cast<size_t>(num_cut));
}

int64_t DecodeRun::finish(int32_t num_waiting) {
  const size_t num_steps = ends_ns_.size();
  const int64_t batch = std::ssize(slots_.running());
  ends_us_.resize(num_steps);
  int64_t begin_ns = begin_ns_;
  for (size_t i = 0; i < num_steps; ++i) {
    const int64_t end_ns = ends_ns_[i];
    ends_us_[i] = end_ns / 1000;
    books_.account_step(begin_ns, end_ns - begin_ns, kv_tokens_ + static_cast<int64_t>(i) * batch,
                        num_waiting);
    sinks_.stats->timeline.at(end_ns).output_tokens += batch;
    if (i > 0) sinks_.stats->itl.add(end_ns - begin_ns, batch);
    begin_ns = end_ns;
  }
  Tokens tokens(slots_);
  scheduler_.run_decodes(begin_ns_ / 1000, ends_us_, tokens);

  ReplicaCounters& counters = books_.counters();
  counters.host_ns += host_ns_;
  const auto rest = static_cast<int32_t>(num_steps) - 1;
  for (const int32_t index : slots_.running()) {
    Slot& slot = slots_.at(index);
    books_.take_token(slot, ends_ns_.front());
    slot.known_tokens += rest;
    slot.last_token_ns = ends_ns_.back();
  }
  books_.flush_gaps();
  counters.host_ns += host_ns_ * rest;
  counters.num_steps += static_cast<int64_t>(num_steps);
  counters.num_tokens += batch * static_cast<int64_t>(num_steps);
  counters.num_output_tokens += batch * static_cast<int64_t>(num_steps);
  books_.account_wait(ends_ns_.back() - begin_ns_, num_waiting);
  books_.note_peaks(kv_.stats(), num_waiting);
  const int64_t last_begin_ns = num_steps > 1 ? ends_ns_[num_steps - 2] : begin_ns_;
  ends_ns_.clear();
  return last_begin_ns;
}

}  // namespace quire::sim
