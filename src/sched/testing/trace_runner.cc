#include "sched/testing/trace_runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace quire::test {
namespace {

constexpr int32_t kTraceVocab = 1000;

Result<int64_t> parse_int(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return invalid_argument("expected a number, got '{}'", text);
  }
  return value;
}

// Parses "a8b4": the first 8 tokens of the endless text a, then the first 4 of b. No two letters
// share a token.
Result<std::vector<TokenId>> parse_prompt(std::string_view text) {
  std::vector<TokenId> tokens;
  while (!text.empty()) {
    const char letter = text[0];
    size_t digits = 1;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    QUIRE_ASSIGN_OR_RETURN(const int64_t count, parse_int(text.substr(1, digits - 1)));
    if (letter < 'a' || letter > 'z' || count > 100000)
      return invalid_argument("prompt: expected a8b4, got '{}'", text);
    for (int32_t i = 0; i < count; ++i) tokens.push_back((letter - 'a' + 1) * 1000000 + i);
    text.remove_prefix(digits);
  }
  return tokens;
}

Result<SchedulingPolicy> parse_policy(std::string_view name) {
  if (name == "fcfs") return SchedulingPolicy::kFcfs;
  if (name == "priority") return SchedulingPolicy::kPriority;
  if (name == "sjf") return SchedulingPolicy::kSjf;
  return invalid_argument("policy: expected fcfs, priority or sjf, got '{}'", name);
}

// Parses "100,10,0,10,0": the fields of StepTimeTable in order, in whole microseconds.
Result<StepTimeTable> parse_step_times(const std::string& text) {
  std::vector<double> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, ',');) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_int(field));
    fields.push_back(static_cast<double>(value));
  }
  if (fields.size() != 5) return invalid_argument("step_times: expected 5 numbers, got '{}'", text);
  return StepTimeTable{.step_us = fields[0],
                       .decode_us = fields[1],
                       .context_us = fields[2],
                       .prompt_token_us = fields[3],
                       .prompt_context_us = fields[4]};
}

std::string describe(const StepPlan& plan) {
  std::string text;
  for (const ScheduledRequest& s : plan.scheduled) {
    text += fmt::format("{}{}:{}+{}", text.empty() ? "" : " ", s.id.value, s.num_computed_tokens,
                        s.num_scheduled_tokens);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

TraceRunner::Line TraceRunner::parse(std::string_view text) {
  Line line;
  std::istringstream stream{std::string(text.substr(0, text.find('#')))};
  stream >> line.verb;
  for (std::string word; stream >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      line.words.push_back(word);
    } else {
      line.options.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  return line;
}

Status TraceRunner::run(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) return not_found("{}: cannot be read", file.string());
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  return run_text(text, file.filename().string());
}

Status TraceRunner::run_text(std::string_view text, std::string_view name) {
  TraceRunner runner;
  int32_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const Line line = parse(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.verb.empty()) continue;
    if (Status status = runner.execute(line); !status.ok()) {
      return status.with_context(fmt::format("{}:{}", name, number));
    }
  }
  return {};
}

Status TraceRunner::execute(const Line& line) {
  if (line.verb == "model") return set_up(line);
  if (line.verb == "config") return configure(line);
  if (spec_.groups.empty())
    return invalid_argument("expected a model line first, got '{}'", line.verb);
  if (scheduler_ == nullptr) {
    QUIRE_RETURN_IF_ERROR(config_.validate());
    start();
  }
  if (line.verb == "add") return add(line);
  if (line.verb == "step") return step(line);
  if (line.verb == "expire") return expire(line);
  if (line.verb == "expect") return expect(line);
  if (line.verb == "end") return end();
  if (line.words.size() != 1)
    return invalid_argument("expected one word after '{}', got {}", line.verb, line.words.size());
  QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_int(line.words[0]));
  if (line.verb == "time") {
    now_us_ += value;
    return {};
  }
  if (line.verb == "abort") {
    const bool found = scheduler_->finish(RequestId(static_cast<uint64_t>(value)),
                                          RequestStatus::kFinishedAborted);
    return found ? Status() : not_found("expected request {} to be unfinished", value);
  }
  return invalid_argument(
      "expected model, config, add, step, abort, time, expire, expect or end, got '{}'", line.verb);
}

Status TraceRunner::set_up(const Line& line) {
  for (const auto& [key, text] : line.options) {
    if (key == "groups") {
      std::istringstream groups(text);
      for (std::string group; std::getline(groups, group, ',');) {
        KvGroupSpec spec{.kind = KvKind::kFull, .sliding_window = 0, .layers = {0}};
        if (group.starts_with("window:")) {
          QUIRE_ASSIGN_OR_RETURN(const int64_t window,
                                 parse_int(std::string_view(group).substr(7)));
          spec.kind = KvKind::kSlidingWindow;
          spec.sliding_window = static_cast<int32_t>(window);
        } else if (group != "full") {
          return invalid_argument("groups: expected full or window:N, got '{}'", group);
        }
        spec_.groups.push_back(spec);
      }
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_int(text));
    if (key == "block_size") {
      spec_.block_size = static_cast<int32_t>(value);
    } else if (key == "blocks") {
      num_blocks_ = static_cast<int32_t>(value);
    } else if (key == "prefix_caching") {
      kv_options_.enable_prefix_caching = value != 0;
    } else if (key == "contiguous") {
      kv_options_.reservation = KvReservation::kContiguousMaxLen;
      kv_options_.max_sequence_tokens = static_cast<int32_t>(value);
    } else {
      return invalid_argument("model: unknown option '{}'", key);
    }
  }
  if (spec_.groups.empty())
    spec_.groups.push_back({.kind = KvKind::kFull, .sliding_window = 0, .layers = {0}});
  return {};
}

Status TraceRunner::configure(const Line& line) {
  config_.watermark = 0.0;
  for (const auto& [key, text] : line.options) {
    if (key == "policy") {
      QUIRE_ASSIGN_OR_RETURN(config_.policy, parse_policy(text));
      continue;
    }
    if (key == "step_times") {
      QUIRE_ASSIGN_OR_RETURN(config_.step_time.predicted, parse_step_times(text));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_int(text));
    const auto number = static_cast<int32_t>(value);
    if (key == "max_num_batched_tokens")
      config_.max_num_batched_tokens = number;
    else if (key == "max_num_seqs")
      config_.max_num_seqs = number;
    else if (key == "max_model_len")
      config_.max_model_len = number;
    else if (key == "long_prefill_token_threshold")
      config_.long_prefill_token_threshold = number;
    else if (key == "max_step_us")
      config_.step_time.max_step_us = number;
    else if (key == "min_decode_steps")
      config_.step_time.min_decode_steps = number;
    else if (key == "chunked_prefill")
      config_.enable_chunked_prefill = number != 0;
    else if (key == "reserve_full_isl")
      config_.reserve_full_isl = number != 0;
    else if (key == "watermark_percent")
      config_.watermark = number / 100.0;
    else if (key == "max_preemptions")
      config_.max_preemptions = number;
    else if (key == "max_skip_ahead")
      config_.max_skip_ahead = number;
    else if (key == "max_overtakes")
      config_.max_overtakes = number;
    else if (key == "express_tokens")
      config_.express_tokens = number;
    else if (key == "max_num_queued_reqs")
      config_.max_num_queued_reqs = number;
    else if (key == "max_num_queued_tokens")
      config_.max_num_queued_tokens = number;
    else if (key == "sjf_ageing_tokens_per_s")
      config_.sjf_ageing_tokens_per_s = number;
    else if (key == "priority_ageing_s")
      config_.priority_ageing_s = number;
    else if (key == "static_batches")
      config_.batching = number != 0 ? BatchingMode::kStaticBatches : BatchingMode::kContinuous;
    else
      return invalid_argument("config: unknown option '{}'", key);
  }
  return {};
}

void TraceRunner::start() {
  kv_ = std::make_unique<KvManager>(spec_, num_blocks_ + 1, kv_options_);
  scheduler_ = std::make_unique<Scheduler>(config_, *kv_);
  executor_ = std::make_unique<ContentExecutor>(spec_, num_blocks_ + 1, kTraceVocab);
}

Status TraceRunner::add(const Line& line) {
  if (line.words.size() != 1) return invalid_argument("expected add ID key=value …");
  QUIRE_ASSIGN_OR_RETURN(const int64_t id, parse_int(line.words[0]));
  Request request;
  request.id = RequestId(static_cast<uint64_t>(id));
  request.arrival_us = now_us_;
  SamplingParams params;
  params.max_tokens = 1;
  std::string refused = "ok";
  for (const auto& [key, text] : line.options) {
    if (key == "prompt") {
      QUIRE_ASSIGN_OR_RETURN(request.token_ids, parse_prompt(text));
    } else if (key == "salt") {
      request.cache_keys.salt = text;
    } else if (key == "adapter") {
      request.cache_keys.adapter = text;
    } else if (key == "refused") {
      refused = text;
    } else {
      QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_int(text));
      if (key == "max_tokens")
        params.max_tokens = static_cast<int32_t>(value);
      else if (key == "priority")
        request.priority = static_cast<int32_t>(value);
      else if (key == "fork_of")
        request.fork_of = RequestId(static_cast<uint64_t>(value));
      else if (key == "deadline")
        request.deadline_us = value;
      else if (key == "prompt_logprobs")
        params.prompt_logprobs = static_cast<int32_t>(value);
      else
        return invalid_argument("add: unknown option '{}'", key);
    }
  }
  request.params = std::make_shared<SamplingParams>(std::move(params));
  const Status status = scheduler_->add(std::move(request), now_us_);
  std::string said(to_string(status.code()));
  std::replace(said.begin(), said.end(), ' ', '_');
  if (said == refused) return {};
  return internal_error("expected add to say {}, got {}: {}", refused, said, status.message());
}

Status TraceRunner::step(const Line& line) {
  const StepPlan& plan = scheduler_->schedule(now_us_);
  const std::string expected = fmt::format("{}", fmt::join(line.words, " "));
  if (describe(plan) != expected)
    return internal_error("expected plan {}, got {}", expected, describe(plan));
  int64_t took_us = 0;
  for (const auto& [key, text] : line.options) {
    if (key == "took") {
      QUIRE_ASSIGN_OR_RETURN(took_us, parse_int(text));
      continue;
    }
    size_t got = 0;
    if (key == "copies")
      got = plan.block_copies.size();
    else if (key == "dropped")
      got = plan.dropped.size();
    else if (key == "new")
      got = plan.new_requests.size();
    else
      return invalid_argument("step: unknown option '{}'", key);
    if (std::to_string(got) != text)
      return internal_error("expected {}={}, got {}", key, text, got);
  }
  if (plan.empty()) return {};
  const StepResult result = executor_->execute(plan);
  if (!executor_->errors().empty()) return internal_error("{}", executor_->errors().front());
  now_us_ += took_us;
  for (const RequestUpdate& update : scheduler_->update(result, now_us_))
    num_finished_ += update.finished ? 1 : 0;
  return scheduler_->check_integrity();
}

Status TraceRunner::expire(const Line& line) {
  std::vector<std::string> got;
  for (const RequestId id : scheduler_->expire(now_us_)) got.push_back(std::to_string(id.value));
  if (got == line.words || (got.empty() && line.words == std::vector<std::string>{"-"})) return {};
  return internal_error("expected {} to expire, got {}", fmt::join(line.words, " "),
                        fmt::join(got, " "));
}

Result<int64_t> TraceRunner::value_of(const std::string& name) const {
  const SchedulerStats stats = scheduler_->stats();
  if (name == "running") return stats.num_running;
  if (name == "waiting") return stats.num_waiting;
  if (name == "finished") return num_finished_;
  if (name == "queued_tokens") return stats.num_queued_tokens;
  if (name == "free") return kv_->stats().num_free_blocks;
  if (name == "preemptions") return stats.num_preemptions;
  if (name == "recomputed") return stats.num_recomputed_tokens;
  if (name == "skip_aheads") return stats.num_skip_aheads;
  if (name == "head_waits") return stats.num_head_waits;
  if (name == "forks") return stats.num_forks;
  if (name == "prefix_queries") return stats.prefix_queries;
  if (name == "prefix_hits") return stats.prefix_hits;
  if (name == "unused_slots") return kv_->stats().num_unused_slots;
  if (name.starts_with("cached:")) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t id, parse_int(std::string_view(name).substr(7)));
    const Request* request = scheduler_->find(RequestId(static_cast<uint64_t>(id)));
    if (request == nullptr) return not_found("request {} is gone", id);
    return request->num_cached_tokens;
  }
  return invalid_argument("expect: unknown name '{}'", name);
}

Status TraceRunner::expect(const Line& line) {
  for (const auto& [key, text] : line.options) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t expected, parse_int(text));
    QUIRE_ASSIGN_OR_RETURN(const int64_t got, value_of(key));
    if (got != expected) return internal_error("expected {}={}, got {}", key, expected, got);
  }
  return {};
}

// Checks that everything has ended and is free again (KV-7).
Status TraceRunner::end() {
  const StepPlan& plan = scheduler_->schedule(now_us_);
  if (!plan.empty()) return internal_error("expected the end, got plan {}", describe(plan));
  if (scheduler_->has_unfinished())
    return internal_error("expected the end, {} requests wait", scheduler_->num_waiting());
  if (kv_->stats().num_free_blocks != num_blocks_) {
    return internal_error("KV-7: expected {} free blocks, got {}", num_blocks_,
                          kv_->stats().num_free_blocks);
  }
  return scheduler_->check_integrity();
}

}  // namespace quire::test
