#include "quire/bench/load_plan.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <random>
#include <utility>

#include "sim/workload/token_content.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

// Each kind of random prompt has a random stream of its own.
constexpr uint64_t kPrefixStream = 0x6c6f6164u;
constexpr uint64_t kPromptStream = 0x6c6f6165u;
// These token ids are in any vocabulary, so that prompts need no tokenizer.
constexpr TokenId kFirstToken = 10;
constexpr TokenId kNumTokens = 240;

std::string random_words(std::mt19937_64& rng, int32_t count) {
  std::uniform_int_distribution<int> letter('a', 'z');
  std::string text;
  for (int32_t i = 0; i < count; ++i) {
    for (int j = 0; j < 3; ++j) text += static_cast<char>(letter(rng));
    text += ' ';
  }
  return text;
}

int32_t random_length(std::mt19937_64& rng, int32_t length, double ratio) {
  const auto low = static_cast<int32_t>(std::floor(length * (1.0 - ratio)));
  const auto high = static_cast<int32_t>(std::ceil(length * (1.0 + ratio)));
  return std::max(1, std::uniform_int_distribution<int32_t>(low, high)(rng));
}

sim::Workload random_workload(const LoadOptions& options) {
  std::mt19937_64 rng(options.seed);
  std::gamma_distribution<double> gap(options.burstiness, 1.0 / options.burstiness);
  sim::Workload workload{.name = "bench serve"};
  std::vector<double> starts_s;
  double at_s = 0.0;
  for (int32_t i = 0; i < options.num_requests; ++i) {
    const int32_t input_len = random_length(rng, options.input_len, options.range_ratio);
    workload.requests.push_back(
        {.input_tokens = options.prefix_len + input_len,
         .output_tokens = random_length(rng, options.output_len, options.range_ratio),
         .content = sim::stream_id(kPromptStream, rng()),
         .prefix = sim::stream_id(kPrefixStream, options.seed),
         .prefix_tokens = options.prefix_len});
    starts_s.push_back(at_s);
    if (options.request_rate > 0) at_s += gap(rng);
  }
  const double scale =
      options.request_rate > 0 && at_s > 0 ? options.num_requests / options.request_rate / at_s : 0;
  for (size_t i = 0; i < starts_s.size(); ++i) {
    workload.requests[i].arrival_ns = std::llround(starts_s[i] * scale * 1e9);
  }
  return workload;
}

Status check_trace(const sim::Workload& trace, const LoadOptions& options) {
  if (options.chat)
    return invalid_argument(
        "--trace: expected --backend openai, because a trace has token ids and no messages");
  const bool has_turns = std::any_of(trace.requests.begin(), trace.requests.end(),
                                     [](const sim::SimRequest& r) { return r.previous >= 0; });
  if (has_turns || (trace.closed_loop && trace.closed_loop->think_ns > 0)) {
    return invalid_argument(
        "--trace: expected requests with arrival times of their own, or a closed loop without "
        "think time; got turns or think times");
  }
  return {};
}

json::array prompt_ids(const sim::Workload& workload, const sim::SimRequest& request) {
  std::vector<TokenId> tokens;
  workload.fill_prompt(request, tokens);
  json::array ids;
  ids.reserve(tokens.size());
  for (const TokenId token : tokens) ids.emplace_back(kFirstToken + token % kNumTokens);
  return ids;
}

}  // namespace

Result<LoadPlan> plan_load(const LoadOptions& options) {
  LoadPlan plan;
  if (options.trace) {
    QUIRE_RETURN_IF_ERROR(check_trace(*options.trace, options));
    plan.workload = *options.trace;
  } else {
    plan.workload = random_workload(options);
  }
  std::mt19937_64 words(options.seed);
  for (const sim::SimRequest& request : plan.workload.requests) {
    json::object body{{"model", options.model},
                      {"max_tokens", request.output_tokens},
                      {"temperature", 0.0},
                      {"repetition_penalty", 1.0},
                      {"ignore_eos", options.ignore_eos},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}}};
    if (options.chat) {
      body["messages"] =
          json::array{{{"role", "user"}, {"content", random_words(words, request.input_tokens)}}};
    } else {
      body["prompt"] = prompt_ids(plan.workload, request);
    }
    plan.bodies.push_back(json::serialize(body));
  }
  return plan;
}

sim::Workload sent_workload(sim::Workload planned, const LoadResult& result) {
  std::vector<sim::SimRequest> sent;
  for (size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& record = result.requests[i];
    if (!record.error.empty() || record.output_tokens < 1) continue;
    sim::SimRequest request = planned.requests[i];
    request.arrival_ns = std::llround(record.start_s * 1e9);
    request.input_tokens = record.input_tokens;
    request.output_tokens = record.output_tokens;
    sent.push_back(request);
  }
  planned.requests = std::move(sent);
  planned.closed_loop.reset();
  sim::sort_by_arrival(planned);
  return planned;
}

}  // namespace quire::bench
