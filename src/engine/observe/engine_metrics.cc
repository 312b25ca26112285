#include "engine/observe/engine_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/step_timings.h"

namespace quire {
namespace {

double seconds(int64_t us) { return static_cast<double>(std::max<int64_t>(us, 0)) * 1e-6; }

void make_histograms(EngineStats& s) {
  s.time_to_first_token_seconds = Histogram(buckets::time_to_first_token_s());
  s.inter_token_latency_seconds = Histogram(buckets::inter_token_s());
  s.request_time_per_output_token_seconds = Histogram(buckets::inter_token_s());
  for (Histogram* histogram : {&s.e2e_request_latency_seconds, &s.request_queue_time_seconds,
                               &s.request_inference_time_seconds, &s.request_prefill_time_seconds,
                               &s.request_decode_time_seconds, &s.media_encode_seconds}) {
    *histogram = Histogram(buckets::latency_s());
  }
  for (Histogram* histogram : {&s.request_prompt_tokens, &s.request_generation_tokens,
                               &s.request_max_num_generation_tokens, &s.request_params_max_tokens,
                               &s.request_prefill_kv_computed_tokens}) {
    *histogram = Histogram(buckets::one_two_five(s.max_model_len));
  }
  s.request_params_n = Histogram(buckets::num_choices());
  s.request_num_preemptions = Histogram(buckets::num_preemptions());
  s.iteration_tokens = Histogram(buckets::iteration_tokens());
  s.step_bound_share = Histogram(buckets::shares());
  s.step_predicted_share = Histogram(buckets::ratios());
  for (Histogram* histogram : {&s.kv_block_lifetime_seconds, &s.kv_block_idle_before_evict_seconds,
                               &s.kv_block_reuse_gap_seconds}) {
    *histogram = Histogram(buckets::kv_residency_s());
  }
}

void add_time(StepTimeTotals& total, const StepRecord& step) {
  total.schedule_us += step.schedule_us;
  total.execute_us += step.execute_us;
  total.update_us += step.update_us;
  add_times(total.executor, step.executor);
  total.executor.num_members = step.executor.num_members;
}

uint64_t& success_counter(EngineStats& stats, FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return stats.request_success_stop;
    case FinishReason::kLength:
      return stats.request_success_length;
    case FinishReason::kAbort:
      return stats.request_success_abort;
    case FinishReason::kError:
      break;
  }
  return stats.request_success_error;
}

}  // namespace

void RecentWindow::add(double value) {
  if (values_.size() < kCapacity) {
    values_.push_back(value);
    return;
  }
  values_[next_] = value;
  next_ = (next_ + 1) % kCapacity;
}

// Nearest-rank percentiles.
Percentiles RecentWindow::percentiles() const {
  if (values_.empty()) return {};
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&sorted](double share) {
    const double rank = std::ceil(share * static_cast<double>(sorted.size()));
    return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  return {at(0.50), at(0.90), at(0.99)};
}

EngineMetrics::EngineMetrics(EngineStats constants) : stats_(std::move(constants)) {
  make_histograms(stats_);
}

void EngineMetrics::on_submitted(bool accepted) {
  const std::lock_guard lock(mutex_);
  ++(accepted ? stats_.requests_received : stats_.requests_refused);
}

void EngineMetrics::on_first_token(int64_t time_to_first_token_us, int32_t num_prompt_tokens,
                                   int32_t num_cached_tokens) {
  const std::lock_guard lock(mutex_);
  const double ttft = seconds(time_to_first_token_us);
  stats_.time_to_first_token_seconds.observe(ttft);
  recent_ttft_.add(ttft);
  const auto prompt = static_cast<uint64_t>(num_prompt_tokens);
  const auto cached = static_cast<uint64_t>(num_cached_tokens);
  stats_.prompt_tokens += prompt;
  stats_.prompt_tokens_local_compute += prompt - cached;
  stats_.prompt_tokens_local_cache_hit += cached;
  stats_.prompt_tokens_cached += cached;
  iteration_tokens_ += prompt;
}

void EngineMetrics::on_tokens(int32_t num_tokens, std::optional<int64_t> gap_us) {
  const std::lock_guard lock(mutex_);
  stats_.generation_tokens += static_cast<uint64_t>(num_tokens);
  iteration_tokens_ += static_cast<uint64_t>(num_tokens);
  if (!gap_us) return;
  stats_.inter_token_latency_seconds.observe(seconds(*gap_us));
  recent_itl_.add(seconds(*gap_us));
}

void EngineMetrics::on_beam_step(int32_t num_beams) {
  const std::lock_guard lock(mutex_);
  ++stats_.beam_search_steps;
  stats_.beam_search_beams += static_cast<uint64_t>(num_beams);
}

void EngineMetrics::on_drafts(int32_t num_drafts, int32_t num_accepted) {
  const std::lock_guard lock(mutex_);
  ++stats_.spec_decode_num_drafts;
  stats_.spec_decode_num_draft_tokens += static_cast<uint64_t>(num_drafts);
  stats_.spec_decode_num_accepted_tokens += static_cast<uint64_t>(num_accepted);
  auto& per_pos = stats_.spec_decode_num_accepted_tokens_per_pos;
  if (per_pos.size() < static_cast<size_t>(num_drafts))
    per_pos.resize(static_cast<size_t>(num_drafts));
  for (size_t i = 0; i < static_cast<size_t>(num_accepted); ++i) ++per_pos[i];
}

void EngineMetrics::on_finished(FinishReason reason, const FinishedChoice& choice) {
  const std::lock_guard lock(mutex_);
  ++success_counter(stats_, reason);
  if (reason == FinishReason::kAbort || reason == FinishReason::kError) return;
  const ChoiceTimes& t = choice.times;
  const double decode = seconds(t.last_token_us - t.first_token_us);
  const int32_t n = choice.num_output_tokens;
  stats_.e2e_request_latency_seconds.observe(seconds(t.last_token_us - t.arrival_us));
  stats_.request_queue_time_seconds.observe(seconds(t.first_scheduled_us - t.queued_us));
  stats_.request_prefill_time_seconds.observe(seconds(t.first_token_us - t.first_scheduled_us));
  stats_.request_decode_time_seconds.observe(decode);
  stats_.request_inference_time_seconds.observe(seconds(t.last_token_us - t.first_scheduled_us));
  stats_.request_time_per_output_token_seconds.observe(n > 1 ? decode / (n - 1) : 0.0);
  stats_.request_prompt_tokens.observe(choice.num_prompt_tokens);
  stats_.request_generation_tokens.observe(n);
  stats_.request_params_max_tokens.observe(choice.max_tokens);
  stats_.request_num_preemptions.observe(choice.num_preemptions);
  stats_.request_prefill_kv_computed_tokens.observe(choice.num_prompt_tokens -
                                                    choice.num_cached_tokens);
}

void EngineMetrics::on_group_finished(int32_t num_choices, int32_t max_output_tokens) {
  const std::lock_guard lock(mutex_);
  stats_.request_params_n.observe(num_choices);
  stats_.request_max_num_generation_tokens.observe(max_output_tokens);
}

void EngineMetrics::on_overflow() {
  const std::lock_guard lock(mutex_);
  ++stats_.streams_overflowed;
}

void EngineMetrics::on_deadline() {
  const std::lock_guard lock(mutex_);
  ++stats_.deadlines_exceeded;
}

void EngineMetrics::on_corrupted() {
  const std::lock_guard lock(mutex_);
  ++stats_.corrupted_requests;
}

void EngineMetrics::on_step(const StepRecord& step) {
  const std::lock_guard lock(mutex_);
  ++stats_.steps;
  add_time(stats_.step_time, step);
  if (step.failed) ++stats_.steps_failed;
  stats_.scheduled_tokens += static_cast<uint64_t>(step.num_tokens);
  recent_step_.add(seconds(step.total_us()));
  for (const int64_t us : step.media_encode_us) stats_.media_encode_seconds.observe(seconds(us));
  if (!step.failed) on_step_cost(step);
  const uint64_t tokens = std::exchange(iteration_tokens_, 0);
  if (tokens > 0) stats_.iteration_tokens.observe(static_cast<double>(tokens));
}

void EngineMetrics::on_step_cost(const StepRecord& step) {
  if (step.cost.bound_us <= 0 || step.total_us() <= 0) return;
  const auto measured_us = static_cast<double>(step.total_us());
  stats_.estimated_flops += static_cast<uint64_t>(step.cost.flops);
  stats_.estimated_read_bytes += static_cast<uint64_t>(step.cost.read_bytes);
  stats_.estimated_write_bytes += static_cast<uint64_t>(step.cost.write_bytes);
  stats_.step_us += static_cast<uint64_t>(step.total_us());
  stats_.step_bound_us += static_cast<uint64_t>(step.cost.bound_us);
  stats_.step_bound_share.observe(step.bound_share());
  stats_.step_predicted_share.observe(step.cost.total_us / measured_us);
}

void EngineMetrics::on_residency(const std::vector<ResidencySample>& samples) {
  const std::lock_guard lock(mutex_);
  for (const ResidencySample& sample : samples) {
    stats_.kv_block_lifetime_seconds.observe(seconds(sample.lifetime_us));
    stats_.kv_block_idle_before_evict_seconds.observe(seconds(sample.idle_us));
    for (int32_t i = 0; i < sample.num_reuse_gaps; ++i) {
      stats_.kv_block_reuse_gap_seconds.observe(seconds(sample.reuse_gap_us[i]));
    }
  }
}

void EngineMetrics::set_graphs(const GraphCounts& graphs) {
  const std::lock_guard lock(mutex_);
  stats_.graphs = graphs;
}

void EngineMetrics::set_kv_files(const KvFileStats& files) {
  const std::lock_guard lock(mutex_);
  stats_.kv_files = files;
}

void EngineMetrics::set_gauges(const SchedulerStats& scheduler, const EncoderCacheStats& media,
                               const KvStats& kv, const KvStats& states) {
  const std::lock_guard lock(mutex_);
  stats_.num_requests_running = scheduler.num_running;
  stats_.num_requests_waiting = scheduler.num_waiting;
  stats_.num_requests_waiting_deferred = scheduler.num_fork_waiting;
  stats_.num_queued_tokens = scheduler.num_queued_tokens;
  stats_.num_preemptions = static_cast<uint64_t>(scheduler.num_preemptions);
  stats_.num_recomputed_tokens = static_cast<uint64_t>(scheduler.num_recomputed_tokens);
  stats_.prefix_cache_queries = static_cast<uint64_t>(scheduler.prefix_queries);
  stats_.prefix_cache_hits = static_cast<uint64_t>(scheduler.prefix_hits);
  stats_.media_cache_queries = static_cast<uint64_t>(media.num_queries);
  stats_.media_cache_hits = static_cast<uint64_t>(media.num_hits);
  stats_.wasted_kv_share = scheduler.wasted_kv_share();
  stats_.kv_cache_usage = std::max(kv.usage(), states.usage());
  stats_.kv_blocks_in_use = kv.num_usable_blocks - kv.num_free_blocks;
  stats_.kv_blocks_cached = kv.num_cached_blocks;
  stats_.kv_evictions = static_cast<uint64_t>(kv.num_evicted_total);
  stats_.kv_blocks_offloaded = static_cast<uint64_t>(kv.num_offloaded_total);
  stats_.kv_blocks_loaded = static_cast<uint64_t>(kv.num_loaded_total);
  stats_.kv_host_blocks = kv.num_host_blocks_kept;
  stats_.state_blocks_in_use = states.num_usable_blocks - states.num_free_blocks;
  stats_.state_blocks_cached = states.num_cached_blocks;
}

// Versions of one name, where an adapter was replaced, are counted together. Allocates nothing if
// nothing has changed since the last step.
void EngineMetrics::set_adapters(std::span<const AdapterUse> uses) {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterRequests>& adapters = stats_.adapters;
  for (AdapterRequests& requests : adapters) requests.num_running = requests.num_waiting = 0;
  for (const AdapterUse& use : uses) {
    auto at = std::lower_bound(
        adapters.begin(), adapters.end(), use.adapter->name,
        [](const AdapterRequests& a, const std::string& name) { return a.name < name; });
    if (at == adapters.end() || at->name != use.adapter->name)
      at = adapters.insert(at, {.name = use.adapter->name});
    at->num_running += use.num_running;
    at->num_waiting += use.num_waiting;
  }
  std::erase_if(adapters, [](const AdapterRequests& requests) {
    return requests.num_running == 0 && requests.num_waiting == 0;
  });
}

EngineStats EngineMetrics::snapshot(int64_t uptime_us, int64_t num_submitted) const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.uptime_s = seconds(uptime_us);
  stats.num_requests_waiting += num_submitted;
  stats.num_requests_waiting_capacity =
      stats.num_requests_waiting - stats.num_requests_waiting_deferred;
  stats.recent_time_to_first_token = recent_ttft_.percentiles();
  stats.recent_inter_token_latency = recent_itl_.percentiles();
  stats.recent_step = recent_step_.percentiles();
  return stats;
}

}  // namespace quire
