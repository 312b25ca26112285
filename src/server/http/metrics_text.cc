#include "server/http/metrics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

namespace quire::server {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// Prints a number as the Python client does (1.0, 0.001, 1e+06), so that series made for vLLM keep
// their labels.
std::string number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "+Inf" : "-Inf";
  std::string text = fmt::format("{:.17g}", x);
  if (const std::string brief = fmt::format("{}", x); brief.find('e') == std::string::npos)
    text = brief;
  const size_t dot = std::min(text.find('.'), text.size());
  if (text.find('e') != std::string::npos) return text;
  if (dot == text.size()) text += ".0";
  if (x <= 0 || dot <= 6) return text;
  // Exponents have the form of the Python client: 1e+06, 1.234567e+06.
  std::string mantissa = text.substr(0, 1) + "." + text.substr(1, dot - 1) + text.substr(dot + 1);
  mantissa.erase(mantissa.find_last_not_of('0') + 1);
  if (mantissa.back() == '.') mantissa.pop_back();
  return fmt::format("{}e+{:02}", mantissa, dot - 1);
}

std::string label_text(std::span<const MetricLabel> labels) {
  std::string out;
  for (const MetricLabel& label : labels) {
    if (!out.empty()) out.push_back(',');
    out += fmt::format("{}=\"{}\"", label.name, escaped(label.value));
  }
  return out;
}

struct CounterRow {
  std::string_view name;
  uint64_t EngineStats::*member;
  std::string_view help;
};
constexpr CounterRow kCounters[] = {
    {"vllm:prompt_tokens_total", &EngineStats::prompt_tokens, "Prompt tokens processed."},
    {"vllm:prompt_tokens_cached_total", &EngineStats::prompt_tokens_cached,
     "Prompt tokens read from a cache."},
    {"vllm:generation_tokens_total", &EngineStats::generation_tokens, "Tokens generated."},
    {"vllm:num_preemptions_total", &EngineStats::num_preemptions, "Preemptions."},
    {"vllm:prefix_cache_queries_total", &EngineStats::prefix_cache_queries,
     "Tokens looked up in the prefix cache."},
    {"vllm:prefix_cache_hits_total", &EngineStats::prefix_cache_hits,
     "Tokens found in the prefix cache."},
    {"vllm:mm_cache_queries_total", &EngineStats::media_cache_queries,
     "Items whose embeddings a request began to need."},
    {"vllm:mm_cache_hits_total", &EngineStats::media_cache_hits,
     "Of them, items that were not encoded again."},
    {"vllm:corrupted_requests_total", &EngineStats::corrupted_requests,
     "Requests with non-finite logits."},
    {"quire:beam_search_steps_total", &EngineStats::beam_search_steps, "Steps of beam searches."},
    {"quire:beam_search_beams_total", &EngineStats::beam_search_beams,
     "Beams that ran in the steps of beam searches."},
    {"vllm:spec_decode_num_drafts_total", &EngineStats::spec_decode_num_drafts,
     "Verifications of drafts: a request in a step."},
    {"vllm:spec_decode_num_draft_tokens_total", &EngineStats::spec_decode_num_draft_tokens,
     "Tokens drafted."},
    {"vllm:spec_decode_num_accepted_tokens_total", &EngineStats::spec_decode_num_accepted_tokens,
     "Drafted tokens that came out."},
    {"quire:grammar_hits_total", &EngineStats::grammar_hits,
     "Requests with structured output whose grammar was known."},
    {"quire:grammars_compiled_total", &EngineStats::grammars_compiled, "Grammars compiled."},
    {"quire:grammars_failed_total", &EngineStats::grammars_failed,
     "Grammars that could not be compiled."},
    {"quire:kv_blocks_offloaded_total", &EngineStats::kv_blocks_offloaded,
     "KV blocks copied to host memory."},
    {"quire:kv_blocks_loaded_total", &EngineStats::kv_blocks_loaded,
     "KV blocks copied back from host memory."},
    {"quire:requests_received_total", &EngineStats::requests_received, "Client requests accepted."},
    {"quire:requests_refused_total", &EngineStats::requests_refused, "Client requests refused."},
    {"quire:streams_overflowed_total", &EngineStats::streams_overflowed,
     "Requests aborted because their reader was too slow."},
    {"quire:deadlines_exceeded_total", &EngineStats::deadlines_exceeded,
     "Requests whose deadline passed."},
    {"quire:steps_total", &EngineStats::steps, "Engine steps."},
    {"quire:steps_failed_total", &EngineStats::steps_failed,
     "Engine steps that failed as a whole."},
    {"quire:scheduled_tokens_total", &EngineStats::scheduled_tokens,
     "Token positions run, recomputation included."},
    {"vllm:estimated_flops_per_gpu_total", &EngineStats::estimated_flops,
     "Floating-point operations of all steps, from their shapes."},
    {"vllm:estimated_read_bytes_per_gpu_total", &EngineStats::estimated_read_bytes,
     "Bytes read from memory by all steps, from their shapes."},
    {"vllm:estimated_write_bytes_per_gpu_total", &EngineStats::estimated_write_bytes,
     "Bytes written to memory by all steps, from their shapes."},
    {"quire:step_microseconds_total", &EngineStats::step_us, "Measured time of all steps."},
    {"quire:step_bound_microseconds_total", &EngineStats::step_bound_us,
     "Least time that the hardware allows for the same steps."},
};

struct HistogramRow {
  std::string_view name;
  Histogram EngineStats::*member;
  std::string_view help;
};
constexpr HistogramRow kHistograms[] = {
    {"vllm:time_to_first_token_seconds", &EngineStats::time_to_first_token_seconds,
     "Arrival to first token."},
    {"vllm:inter_token_latency_seconds", &EngineStats::inter_token_latency_seconds,
     "Between output batches."},
    {"vllm:request_time_per_output_token_seconds",
     &EngineStats::request_time_per_output_token_seconds, "Decode time over tokens - 1."},
    {"vllm:e2e_request_latency_seconds", &EngineStats::e2e_request_latency_seconds,
     "Arrival to last token."},
    {"vllm:request_queue_time_seconds", &EngineStats::request_queue_time_seconds,
     "Queued to first scheduled."},
    {"vllm:request_inference_time_seconds", &EngineStats::request_inference_time_seconds,
     "First scheduled to last token."},
    {"vllm:request_prefill_time_seconds", &EngineStats::request_prefill_time_seconds,
     "First scheduled to first token."},
    {"vllm:request_decode_time_seconds", &EngineStats::request_decode_time_seconds,
     "First to last token."},
    {"quire:media_encode_seconds", &EngineStats::media_encode_seconds,
     "Encoding of one image, recording or source text."},
    {"vllm:request_prompt_tokens", &EngineStats::request_prompt_tokens,
     "Prompt tokens per request."},
    {"vllm:request_generation_tokens", &EngineStats::request_generation_tokens,
     "Generated tokens per request."},
    {"vllm:request_max_num_generation_tokens", &EngineStats::request_max_num_generation_tokens,
     "Generated tokens of the longest choice."},
    {"vllm:request_params_n", &EngineStats::request_params_n, "Parameter n."},
    {"vllm:request_params_max_tokens", &EngineStats::request_params_max_tokens,
     "Parameter max_tokens."},
    {"vllm:request_num_preemptions", &EngineStats::request_num_preemptions,
     "Times that a request was preempted."},
    {"vllm:iteration_tokens_total", &EngineStats::iteration_tokens, "Tokens per engine step."},
    {"quire:step_bound_share", &EngineStats::step_bound_share,
     "Least time that the hardware allows over measured time, per step."},
    {"quire:step_predicted_share", &EngineStats::step_predicted_share,
     "Predicted over measured time, per step."},
    {"vllm:request_prefill_kv_computed_tokens", &EngineStats::request_prefill_kv_computed_tokens,
     "Prompt tokens whose KV was computed, cache hits not counted."},
    {"vllm:kv_block_lifetime_seconds", &EngineStats::kv_block_lifetime_seconds,
     "Allocation to eviction of sampled blocks."},
    {"vllm:kv_block_idle_before_evict_seconds", &EngineStats::kv_block_idle_before_evict_seconds,
     "Last access to eviction of sampled blocks."},
    {"vllm:kv_block_reuse_gap_seconds", &EngineStats::kv_block_reuse_gap_seconds,
     "Between accesses of sampled blocks."},
};

class EngineMetrics {
 public:
  EngineMetrics(const EngineStats& stats, size_t engine, std::string_view model, double now_s)
      : stats_(stats),
        common_{{"model_name", std::string(model)}, {"engine", std::to_string(engine)}},
        now_s_(now_s) {}

  std::string text() {
    gauges();
    if (stats_.graphs) graphs(*stats_.graphs);
    kv_files(stats_.kv_files.value_or(KvFileStats{}));
    info();
    adapters();
    counters();
    for (const HistogramRow& row : kHistograms) {
      out_.family(row.name, "histogram", row.help);
      out_.histogram(row.name, common_, stats_.*row.member);
    }
    return out_.take();
  }

 private:
  std::vector<MetricLabel> with(std::string_view name, std::string value) const {
    std::vector<MetricLabel> labels = common_;
    labels.push_back({name, std::move(value)});
    return labels;
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    out_.family(name, "gauge", help);
    out_.sample(name, common_, value);
  }
  // Writes one sample for each value of one more label.
  void by(std::string_view name, std::string_view type, std::string_view help,
          std::string_view label, std::initializer_list<std::pair<const char*, double>> values) {
    out_.family(name, type, help);
    for (const auto& [value, x] : values) out_.sample(name, with(label, value), x);
  }
  void gauges();
  void graphs(const GraphCounts& counts);
  void kv_files(const KvFileStats& files);
  void info();
  void adapters();
  void counters();

  const EngineStats& stats_;
  const std::vector<MetricLabel> common_;
  const double now_s_;
  MetricsWriter out_;
};

void EngineMetrics::gauges() {
  const auto real = [](int64_t x) { return static_cast<double>(x); };
  gauge("vllm:num_requests_running", "Requests in the running batch.",
        real(stats_.num_requests_running));
  gauge("vllm:num_requests_waiting", "Requests waiting.", real(stats_.num_requests_waiting));
  by("vllm:num_requests_waiting_by_reason", "gauge", "Requests waiting, by reason.", "reason",
     {{"capacity", real(stats_.num_requests_waiting_capacity)},
      {"deferred", real(stats_.num_requests_waiting_deferred)}});
  gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", stats_.kv_cache_usage);
  by("vllm:engine_sleep_state", "gauge", "1 for the state the engine is in.", "sleep_state",
     {{"awake", stats_.sleep_level == 0 ? 1 : 0},
      {"weights_offloaded", stats_.sleep_level == 1 ? 1 : 0},
      {"discard_all", stats_.sleep_level == 2 ? 1 : 0}});
  gauge("quire:kv_blocks_cached", "Unused KV blocks that still hold a prefix.",
        real(stats_.kv_blocks_cached));
  if (stats_.num_state_blocks > 0) {
    gauge("quire:state_blocks", "Blocks for states of layers.", real(stats_.num_state_blocks));
    gauge("quire:state_blocks_in_use", "Of them, those that requests hold.",
          real(stats_.state_blocks_in_use));
    gauge("quire:state_blocks_cached", "Of them, snapshots that prompts may go on from.",
          real(stats_.state_blocks_cached));
  }
  gauge("quire:unread_stream_bytes", "Output that clients have not taken yet, of all streams.",
        real(stats_.unread_stream_bytes));
  gauge("quire:num_queued_tokens", "Prompt tokens of waiting requests.",
        real(stats_.num_queued_tokens));
  gauge("quire:thread_team_members", "Compute threads that the last step ended with.",
        real(stats_.step_time.executor.num_members));
}

// These metrics exist only where steps may run as captured graphs.
void EngineMetrics::graphs(const GraphCounts& counts) {
  const auto real = [](int64_t x) { return static_cast<double>(x); };
  by("quire:gpu_steps_total", "counter", "Steps on the GPU, by how they ran.", "mode",
     {{"graph", real(counts.num_graph_steps)}, {"eager", real(counts.num_eager_steps)}});
  out_.family("quire:graph_padding_tokens_total", "counter", "Tokens that graphs ran for nobody.");
  out_.sample("quire:graph_padding_tokens_total", common_, real(counts.num_padding_tokens));
  gauge("quire:graphs_captured", "Graphs captured so far.", real(counts.num_graphs));
  by("quire:gpu_eager_steps_total", "counter", "Steps without a graph, by what there was none of.",
     "reason",
     {{"mixed", real(counts.num_eager_mixed)},
      {"too_large", real(counts.num_eager_too_large)},
      {"uncaptured", real(counts.num_eager_uncaptured)}});
  out_.family("quire:graph_steps_total", "counter",
              "Steps by the graphs that ran them: whole ones by requests, pieces by tokens.");
  for (const GraphShapeCount& shape : counts.shapes) {
    std::vector<MetricLabel> labels = with("kind", shape.is_whole ? "whole" : "pieces");
    labels.push_back({"size", std::to_string(shape.size)});
    out_.sample("quire:graph_steps_total", labels, real(shape.num_steps));
  }
}

// Dashboards know the first two by name. They are 0 when KV is not kept in files.
void EngineMetrics::kv_files(const KvFileStats& files) {
  const auto counter = [this](std::string_view name, std::string_view help, int64_t value) {
    out_.family(name, "counter", help);
    out_.sample(name, common_, static_cast<double>(value));
  };
  counter("vllm:external_prefix_cache_queries_total",
          "Tokens looked up in files, behind what memory had.", files.queried_tokens);
  counter("vllm:external_prefix_cache_hits_total", "Tokens read from files.", files.hit_tokens);
  if (!stats_.kv_files) return;
  gauge("quire:kv_files", "Files of KV.", static_cast<double>(files.num_files));
  gauge("quire:kv_file_bytes", "Bytes of the files of KV.", static_cast<double>(files.num_bytes));
  gauge("quire:kv_file_blocks", "KV blocks that files hold.",
        static_cast<double>(files.num_blocks));
  counter("quire:kv_file_blocks_stored_total", "KV blocks written to files.", files.stored_blocks);
  counter("quire:kv_file_bytes_stored_total", "Bytes written to files.", files.stored_bytes);
  counter("quire:kv_file_store_microseconds_total", "Time spent writing.", files.store_us);
  counter("quire:kv_file_blocks_loaded_total", "KV blocks read from files.", files.loaded_blocks);
  counter("quire:kv_file_bytes_loaded_total", "Bytes read from files.", files.loaded_bytes);
  counter("quire:kv_file_load_microseconds_total", "Time spent reading.", files.load_us);
  counter("quire:kv_file_load_failures_total",
          "Reads that came to nothing: the file was damaged or had gone.", files.load_failures);
  counter("quire:kv_file_store_failures_total", "Writes that came to nothing, as on a full disk.",
          files.store_failures);
  counter("quire:kv_file_blocks_skipped_total",
          "KV blocks not written for want of room in memory or in --kv-cache-dir-bytes.",
          files.skipped_blocks);
  counter("quire:kv_files_removed_total", "Files removed to make room.", files.removed_files);
  counter("quire:kv_handovers_total", "Prompts whose KV was handed over to another server.",
          files.handovers);
  counter("quire:kv_handover_tokens_total", "Their tokens.", files.handover_tokens);
  counter("quire:kv_handovers_cut_total", "Handovers of less KV than there was.",
          files.handovers_cut);
  counter("quire:kv_takeovers_total", "Prompts whose KV came from another server.",
          files.takeovers);
  counter("quire:kv_takeovers_failed_total",
          "Prompts whose KV was to come from another server and did not.", files.takeovers_failed);
}

void EngineMetrics::info() {
  std::vector<MetricLabel> labels = common_;
  labels.push_back({"block_size", std::to_string(stats_.block_size)});
  labels.push_back({"num_gpu_blocks", std::to_string(stats_.num_kv_blocks)});
  labels.push_back({"enable_prefix_caching", stats_.prefix_caching ? "True" : "False"});
  labels.push_back({"kv_cache_memory_bytes", std::to_string(stats_.kv_bytes)});
  const int64_t tokens = stats_.num_kv_blocks * stats_.block_size;
  labels.push_back({"kv_cache_size_tokens", std::to_string(tokens)});
  labels.push_back(
      {"kv_cache_max_concurrency", stats_.max_model_len > 0
                                       ? number(static_cast<double>(tokens) / stats_.max_model_len)
                                       : "None"});
  out_.family("vllm:cache_config_info", "gauge", "Properties of the KV cache.");
  out_.sample("vllm:cache_config_info", labels, 1);
}

// vLLM's line lists adapters without counts; this one has counts.
void EngineMetrics::adapters() {
  std::string running, waiting;
  const auto add = [](const std::string& name, int64_t count, std::string& list) {
    if (count > 0) list.append(list.empty() ? "" : ",").append(name);
  };
  for (const AdapterRequests& requests : stats_.adapters) {
    add(requests.name, requests.num_running, running);
    add(requests.name, requests.num_waiting, waiting);
  }
  const std::vector<MetricLabel> lora = {{"max_lora", std::to_string(stats_.max_loras)},
                                         {"waiting_lora_adapters", waiting},
                                         {"running_lora_adapters", running}};
  out_.family("vllm:lora_requests_info", "gauge",
              "Adapters in use; the value is the time of this line.");
  out_.sample("vllm:lora_requests_info", lora, now_s_);
  if (stats_.adapters.empty()) return;
  out_.family("quire:lora_requests", "gauge", "Unfinished requests, by adapter and state.");
  for (const AdapterRequests& requests : stats_.adapters) {
    for (const auto& [state, count] :
         {std::pair{"running", requests.num_running}, std::pair{"waiting", requests.num_waiting}}) {
      std::vector<MetricLabel> labels = with("lora_name", requests.name);
      labels.push_back({"state", state});
      out_.sample("quire:lora_requests", labels, static_cast<double>(count));
    }
  }
}

void EngineMetrics::counters() {
  const auto real = [](uint64_t x) { return static_cast<double>(x); };
  for (const CounterRow& row : kCounters) {
    out_.family(row.name, "counter", row.help);
    out_.sample(row.name, common_, real(stats_.*row.member));
  }
  const std::vector<uint64_t>& accepted = stats_.spec_decode_num_accepted_tokens_per_pos;
  if (!accepted.empty()) {
    out_.family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
                "Drafted tokens that came out, by their place in the draft.");
  }
  for (size_t i = 0; i < accepted.size(); ++i) {
    std::vector<MetricLabel> labels = common_;
    labels.push_back({"position", std::to_string(i)});
    out_.sample("vllm:spec_decode_num_accepted_tokens_per_pos_total", labels, real(accepted[i]));
  }
  out_.family("vllm:admission_rejections_total", "counter",
              "Client requests refused because the queue was full, by the limit that was reached.");
  for (const auto& [reason, count] :
       {std::pair{"max_num_queued_reqs", stats_.rejected_max_num_queued_reqs},
        std::pair{"max_num_queued_tokens", stats_.rejected_max_num_queued_tokens}}) {
    out_.sample("vllm:admission_rejections_total", with("reason", reason), real(count));
  }
  const auto time = [](int64_t us) { return static_cast<double>(us); };
  const StepTimeTotals& step = stats_.step_time;
  by("quire:step_part_microseconds_total", "counter",
     "Time of all steps, by part; inputs to sample are parts of execute.", "part",
     {{"schedule", time(step.schedule_us)},
      {"execute", time(step.execute_us)},
      {"update", time(step.update_us)},
      {"inputs", time(step.executor.inputs_us)},
      {"forward", time(step.executor.forward_us)},
      {"logits", time(step.executor.logits_us)},
      {"sample", time(step.executor.sample_us)}});
  out_.family("quire:thread_team_late_members_total", "counter",
              "Times that a compute thread was found to have waited for a core.");
  out_.sample("quire:thread_team_late_members_total", common_, real(step.executor.late_members));
  // Where a request's KV was before it was in the prefix cache is not counted by request. So vLLM's
  // third source, external_kv_transfer, is left out.
  by("vllm:prompt_tokens_by_source_total", "counter",
     "Prompt tokens, by where they came from; cache hits include KV from files and other servers.",
     "source",
     {{"local_compute", real(stats_.prompt_tokens_local_compute)},
      {"local_cache_hit", real(stats_.prompt_tokens_local_cache_hit)}});
  by("vllm:request_success_total", "counter", "Finished requests, by reason.", "finished_reason",
     {{"stop", real(stats_.request_success_stop)},
      {"length", real(stats_.request_success_length)},
      {"abort", real(stats_.request_success_abort)},
      {"error", real(stats_.request_success_error)},
      {"repetition", 0}});
}

}  // namespace

void MetricsWriter::family(std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsWriter::sample(std::string_view name, std::span<const MetricLabel> labels,
                           double value) {
  if (labels.empty()) {
    fmt::format_to(std::back_inserter(text_), "{} {}\n", name, number(value));
  } else {
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, label_text(labels),
                   number(value));
  }
}

void MetricsWriter::histogram(std::string_view name, std::span<const MetricLabel> labels,
                              const Histogram& histogram) {
  const std::string text = label_text(labels);
  const std::string_view comma = text.empty() ? "" : ",";
  uint64_t cumulative = 0;
  for (size_t i = 0; i < histogram.bounds.size(); ++i) {
    cumulative += histogram.counts[i];
    fmt::format_to(std::back_inserter(text_), "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, text, comma,
                   number(histogram.bounds[i]), number(static_cast<double>(cumulative)));
  }
  fmt::format_to(std::back_inserter(text_), "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, text, comma,
                 number(static_cast<double>(histogram.count)));
  fmt::format_to(std::back_inserter(text_), "{}_sum{{{}}} {}\n", name, text, number(histogram.sum));
  fmt::format_to(std::back_inserter(text_), "{}_count{{{}}} {}\n", name, text,
                 number(static_cast<double>(histogram.count)));
}

// The format requires the samples of a metric to stand together, so those of further engines are
// added after those of the first engine. Lines without an engine's label are written once.
std::string engine_metrics_text(std::span<const ModelEngines> models, double now_s) {
  std::vector<std::string> texts;
  for (const ModelEngines& model : models) {
    for (size_t engine = 0; engine < model.stats.size(); ++engine) {
      texts.push_back(EngineMetrics(model.stats[engine], engine, model.model_name, now_s).text());
    }
  }
  std::vector<std::string> families;
  std::map<std::string, size_t, std::less<>> places;  // index of each metric by its first line
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find("\n# HELP ", begin), text.size() - 1) + 1;
      const size_t samples = text.find('\n', text.find("\n# TYPE ", begin) + 1) + 1;
      const auto [place, is_new] =
          places.try_emplace(text.substr(begin, samples - begin), families.size());
      if (is_new) families.push_back(place->first);
      const std::string added = text.substr(samples, end - samples);
      std::string& family = families[place->second];
      if (family.find(added) == family.npos) family += added;
      begin = end;
    }
  }
  std::string all;
  for (const std::string& family : families) all += family;
  return all;
}

std::string engine_metrics_text(std::span<const EngineStats> engines, std::string_view model_name,
                                double now_s) {
  const ModelEngines model{std::string(model_name), {engines.begin(), engines.end()}};
  return engine_metrics_text({&model, 1}, now_s);
}

}  // namespace quire::server
