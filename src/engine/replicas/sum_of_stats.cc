#include <algorithm>

#include "core/step_timings.h"
#include "engine/observe/engine_stats.h"
#include "engine/replicas/replicated_engine.h"

namespace quire {
namespace {

void add(Histogram& sum, const Histogram& other) {
  for (size_t i = 0; i < std::min(sum.counts.size(), other.counts.size()); ++i)
    sum.counts[i] += other.counts[i];
  sum.sum += other.sum;
  sum.count += other.count;
}

void take_greater(std::optional<double>& mine, const std::optional<double>& other) {
  if (other && (!mine || *other > *mine)) mine = other;
}

void take_slower(Percentiles& mine, const Percentiles& other) {
  take_greater(mine.p50, other.p50);
  take_greater(mine.p90, other.p90);
  take_greater(mine.p99, other.p99);
}

constexpr int64_t EngineStats::*kGauges[] = {&EngineStats::num_requests_running,
                                             &EngineStats::num_requests_waiting,
                                             &EngineStats::num_requests_waiting_capacity,
                                             &EngineStats::num_requests_waiting_deferred,
                                             &EngineStats::num_queued_tokens,
                                             &EngineStats::num_kv_blocks,
                                             &EngineStats::kv_bytes,
                                             &EngineStats::kv_blocks_in_use,
                                             &EngineStats::kv_blocks_cached,
                                             &EngineStats::num_state_blocks,
                                             &EngineStats::state_blocks_in_use,
                                             &EngineStats::state_blocks_cached,
                                             &EngineStats::unread_stream_bytes,
                                             &EngineStats::kv_host_blocks,
                                             &EngineStats::num_grammars};

constexpr uint64_t EngineStats::*kCounters[] = {&EngineStats::prompt_tokens,
                                                &EngineStats::prompt_tokens_local_compute,
                                                &EngineStats::prompt_tokens_local_cache_hit,
                                                &EngineStats::prompt_tokens_cached,
                                                &EngineStats::generation_tokens,
                                                &EngineStats::num_preemptions,
                                                &EngineStats::requests_received,
                                                &EngineStats::requests_refused,
                                                &EngineStats::rejected_max_num_queued_reqs,
                                                &EngineStats::rejected_max_num_queued_tokens,
                                                &EngineStats::num_recomputed_tokens,
                                                &EngineStats::kv_evictions,
                                                &EngineStats::request_success_stop,
                                                &EngineStats::request_success_length,
                                                &EngineStats::request_success_abort,
                                                &EngineStats::request_success_error,
                                                &EngineStats::spec_decode_num_drafts,
                                                &EngineStats::spec_decode_num_draft_tokens,
                                                &EngineStats::spec_decode_num_accepted_tokens,
                                                &EngineStats::grammar_hits,
                                                &EngineStats::grammars_compiled,
                                                &EngineStats::grammars_failed,
                                                &EngineStats::beam_search_steps,
                                                &EngineStats::beam_search_beams,
                                                &EngineStats::corrupted_requests,
                                                &EngineStats::prefix_cache_queries,
                                                &EngineStats::prefix_cache_hits,
                                                &EngineStats::media_cache_queries,
                                                &EngineStats::media_cache_hits,
                                                &EngineStats::streams_overflowed,
                                                &EngineStats::deadlines_exceeded,
                                                &EngineStats::steps,
                                                &EngineStats::steps_failed,
                                                &EngineStats::scheduled_tokens,
                                                &EngineStats::estimated_flops,
                                                &EngineStats::estimated_read_bytes,
                                                &EngineStats::estimated_write_bytes,
                                                &EngineStats::step_us,
                                                &EngineStats::step_bound_us,
                                                &EngineStats::kv_blocks_offloaded,
                                                &EngineStats::kv_blocks_loaded};

constexpr Histogram EngineStats::*kHistograms[] = {
    &EngineStats::time_to_first_token_seconds,
    &EngineStats::inter_token_latency_seconds,
    &EngineStats::request_time_per_output_token_seconds,
    &EngineStats::e2e_request_latency_seconds,
    &EngineStats::request_queue_time_seconds,
    &EngineStats::request_inference_time_seconds,
    &EngineStats::request_prefill_time_seconds,
    &EngineStats::request_decode_time_seconds,
    &EngineStats::media_encode_seconds,
    &EngineStats::request_prompt_tokens,
    &EngineStats::request_generation_tokens,
    &EngineStats::request_max_num_generation_tokens,
    &EngineStats::request_params_n,
    &EngineStats::request_params_max_tokens,
    &EngineStats::request_num_preemptions,
    &EngineStats::iteration_tokens,
    &EngineStats::request_prefill_kv_computed_tokens,
    &EngineStats::step_bound_share,
    &EngineStats::step_predicted_share,
    &EngineStats::kv_block_lifetime_seconds,
    &EngineStats::kv_block_idle_before_evict_seconds,
    &EngineStats::kv_block_reuse_gap_seconds};

void add(StepTimeTotals& sum, const StepTimeTotals& other) {
  for (int64_t StepTimeTotals::*part :
       {&StepTimeTotals::schedule_us, &StepTimeTotals::execute_us, &StepTimeTotals::update_us}) {
    sum.*part += other.*part;
  }
  add_times(sum.executor, other.executor);
  sum.executor.num_members += other.executor.num_members;
}

// Adds by adapter name; both lists are sorted by name.
void add(std::vector<AdapterRequests>& sum, const std::vector<AdapterRequests>& other) {
  for (const AdapterRequests& more : other) {
    const auto at = std::lower_bound(sum.begin(), sum.end(), more.name,
                                     [](const AdapterRequests& adapter, const std::string& name) {
                                       return adapter.name < name;
                                     });
    if (at == sum.end() || at->name != more.name) {
      sum.insert(at, more);
    } else {
      at->num_running += more.num_running;
      at->num_waiting += more.num_waiting;
    }
  }
}

// All engines use the same directory, so its contents count once; work done is summed.
void add(KvFileStats& sum, const KvFileStats& other) {
  for (const auto here :
       {&KvFileStats::num_files, &KvFileStats::num_bytes, &KvFileStats::num_blocks}) {
    sum.*here = std::max(sum.*here, other.*here);
  }
  for (const auto total :
       {&KvFileStats::stored_blocks, &KvFileStats::stored_bytes, &KvFileStats::loaded_blocks,
        &KvFileStats::loaded_bytes, &KvFileStats::load_us, &KvFileStats::store_us,
        &KvFileStats::queried_tokens, &KvFileStats::hit_tokens, &KvFileStats::load_failures,
        &KvFileStats::store_failures, &KvFileStats::skipped_blocks, &KvFileStats::removed_files,
        &KvFileStats::handovers, &KvFileStats::handover_tokens, &KvFileStats::handovers_cut,
        &KvFileStats::takeovers, &KvFileStats::takeovers_failed}) {
    sum.*total += other.*total;
  }
}

}  // namespace

EngineStats sum_of(const std::vector<EngineStats>& stats) {
  EngineStats sum = stats.front();
  for (size_t i = 1; i < stats.size(); ++i) {
    const EngineStats& other = stats[i];
    for (const auto gauge : kGauges) sum.*gauge += other.*gauge;
    for (const auto counter : kCounters) sum.*counter += other.*counter;
    for (const auto histogram : kHistograms) add(sum.*histogram, other.*histogram);
    add(sum.step_time, other.step_time);
    add(sum.adapters, other.adapters);
    if (sum.kv_files && other.kv_files) add(*sum.kv_files, *other.kv_files);
    auto& accepted = sum.spec_decode_num_accepted_tokens_per_pos;
    const auto& others = other.spec_decode_num_accepted_tokens_per_pos;
    accepted.resize(std::max(accepted.size(), others.size()));
    for (size_t at = 0; at < others.size(); ++at) accepted[at] += others[at];
    sum.max_num_seqs += other.max_num_seqs;
    sum.kv_cache_usage = std::max(sum.kv_cache_usage, other.kv_cache_usage);
    sum.wasted_kv_share = std::max(sum.wasted_kv_share, other.wasted_kv_share);
    sum.sleep_level = std::min(sum.sleep_level, other.sleep_level);
    take_slower(sum.recent_time_to_first_token, other.recent_time_to_first_token);
    take_slower(sum.recent_inter_token_latency, other.recent_inter_token_latency);
    take_slower(sum.recent_step, other.recent_step);
  }
  return sum;
}

}  // namespace quire
