#include "sim/workload/synthetic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text_fields.h"
#include "sim/workload/token_content.h"

namespace quire::sim {
namespace {

enum Purpose : uint64_t { kGaps = 1, kInputs, kOutputs, kPrefixes, kTurns, kThinking, kPrompts };
enum Stream : uint64_t { kContentStream = 101, kPrefixStream, kPromptStream };

constexpr double kMaxRate = 1e9;

}  // namespace

// --- Arrivals ---

Result<ArrivalProcess> ArrivalProcess::parse(std::string_view text, std::string_view what) {
  const std::vector<std::string_view> parts = split(text, ':');
  ArrivalProcess process;
  if (text == "poisson") return process;
  if (text == "constant") {
    process.kind = ArrivalKind::kConstant;
    return process;
  }
  if (parts.size() == 2 && (parts[0] == "gamma" || parts[0] == "weibull")) {
    process.kind = parts[0] == "gamma" ? ArrivalKind::kGamma : ArrivalKind::kWeibull;
    QUIRE_ASSIGN_OR_RETURN(process.parameter, parse_number(parts[1], 0.05, 100, std::string(what)));
    return process;
  }
  return invalid_argument("{}: expected poisson, gamma:CV, weibull:SHAPE or constant, got '{}'",
                          what, text);
}

double ArrivalProcess::draw_gap(RandomStream& random) const {
  switch (kind) {
    case ArrivalKind::kPoisson:
      return random.exponential(1);
    case ArrivalKind::kGamma: {
      const double shape = 1.0 / (parameter * parameter);
      return random.gamma(shape, 1.0 / shape);
    }
    case ArrivalKind::kWeibull:
      return random.weibull(parameter, 1.0 / std::tgamma(1.0 + 1.0 / parameter));
    case ArrivalKind::kConstant:
      break;
  }
  return 1;
}

RateProfile RateProfile::constant(double per_second) {
  RateProfile profile;
  profile.points_ = {{.time_s = 0, .rate = per_second, .expected = 0}};
  return profile;
}

Result<RateProfile> RateProfile::parse(std::string_view text, std::string_view what) {
  const std::string context(what);
  RateProfile profile;
  if (text == "inf") {
    profile.infinite_ = true;
    return profile;
  }
  if (text.find(':') == std::string_view::npos) {
    QUIRE_ASSIGN_OR_RETURN(const double rate, parse_number(text, 1e-6, kMaxRate, context));
    return constant(rate);
  }
  for (const std::string_view part : split(text, ',')) {
    const std::vector<std::string_view> pair = split(part, ':');
    if (pair.size() != 2) {
      return invalid_argument("{}: expected a rate, inf, or SECOND:RATE,SECOND:RATE,…, got '{}'",
                              what, text);
    }
    Point point;
    QUIRE_ASSIGN_OR_RETURN(point.time_s, parse_number(pair[0], 0, 1e9, context));
    QUIRE_ASSIGN_OR_RETURN(point.rate, parse_number(pair[1], 0, kMaxRate, context));
    if (profile.points_.empty()) {
      if (point.time_s > 0) profile.points_.push_back({.time_s = 0, .rate = point.rate});
    } else if (point.time_s <= profile.points_.back().time_s) {
      return invalid_argument("{}: expected growing times, got {} after {}", what, point.time_s,
                              profile.points_.back().time_s);
    }
    if (!profile.points_.empty()) {
      const Point& last = profile.points_.back();
      point.expected =
          last.expected + 0.5 * (last.rate + point.rate) * (point.time_s - last.time_s);
    }
    profile.points_.push_back(point);
  }
  return profile;
}

double RateProfile::time_of(double expected) const {
  if (infinite_) return 0;
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), expected,
                       [](double value, const Point& p) { return value < p.expected; });
  const Point& from = *(after - 1);
  const double missing = expected - from.expected;
  if (after == points_.end()) {
    return from.rate > 0 ? from.time_s + missing / from.rate : kNoTime;
  }
  // Solves rate t + slope t²/2 = missing for the time t.
  const double slope = (after->rate - from.rate) / (after->time_s - from.time_s);
  const double root = std::sqrt(std::max(0.0, from.rate * from.rate + 2 * slope * missing));
  return from.time_s + (from.rate + root > 0 ? 2 * missing / (from.rate + root) : 0);
}

// --- Requests ---

Status SyntheticOptions::validate() const {
  if (num_requests < 1 || num_requests > (int64_t{1} << 30)) {
    return invalid_argument("workload: expected 1 to 2^30 requests, got {}", num_requests);
  }
  if (prefix_tokens < 0 || num_prefixes < 1 || think_s < 0 || num_prompts < 0 ||
      (duration_s && !(*duration_s > 0))) {
    return invalid_argument(
        "workload: expected a prefix length >= 0, at least 1 prefix, a pause >= 0 and a duration > "
        "0");
  }
  return {};
}

namespace {

// A Generator draws one session after the other.
class Generator {
 public:
  explicit Generator(const SyntheticOptions& options)
      : options_(options),
        gaps_(options.seed, kGaps),
        inputs_(options.seed, kInputs),
        outputs_(options.seed, kOutputs),
        prefixes_(options.seed, kPrefixes),
        turns_(options.seed, kTurns),
        thinking_(options.seed, kThinking),
        prompts_(options.seed, kPrompts) {}

  Workload make() {
    Workload workload;
    workload.closed_loop = options_.closed_loop;
    workload.name = "synthetic";
    double expected = 0;
    while (static_cast<int64_t>(workload.requests.size()) < options_.num_requests) {
      double time_s = 0;
      if (!options_.closed_loop) {
        expected += options_.arrivals.draw_gap(gaps_);
        time_s = options_.rate.time_of(expected);
        if (time_s == RateProfile::kNoTime || time_s > options_.duration_s.value_or(1e9) ||
            time_s > 1e9) {
          break;
        }
      }
      add_session(workload, std::llround(time_s * 1e9));
      ++num_sessions_;
    }
    return workload;
  }

 private:
  void add_session(Workload& workload, int64_t arrival_ns) {
    const int32_t num_turns = options_.turns.draw(turns_);
    SimRequest request;
    request.arrival_ns = arrival_ns;
    request.session = num_sessions_;
    request.content =
        stream_id(kContentStream ^ options_.seed, static_cast<uint64_t>(num_sessions_));
    if (options_.prefix_tokens > 0) {
      const uint64_t prefix = prefixes_.below(static_cast<uint64_t>(options_.num_prefixes));
      request.prefix = stream_id(kPrefixStream ^ options_.seed, prefix);
      request.prefix_tokens = options_.prefix_tokens;
    }
    if (options_.num_prompts > 0) {
      const uint64_t prompt = prompts_.below(static_cast<uint64_t>(options_.num_prompts));
      request.prefix = stream_id(kPromptStream ^ options_.seed, prompt);
    }
    int64_t history = options_.prefix_tokens;
    for (int32_t turn = 0; turn < num_turns; ++turn) {
      const int64_t input = history + options_.input.draw(inputs_);
      request.output_tokens = options_.output.draw(outputs_);
      history = input + request.output_tokens;
      const bool too_long =
          history > (options_.max_model_len > 0 ? options_.max_model_len : int64_t{1} << 28);
      if (turn > 0 && too_long) return;
      request.input_tokens = static_cast<int32_t>(input);
      if (options_.num_prompts > 0) request.prefix_tokens = request.input_tokens;
      workload.requests.push_back(request);
      if (static_cast<int64_t>(workload.requests.size()) >= options_.num_requests) return;
      request.previous = static_cast<int32_t>(workload.requests.size()) - 1;
      if (options_.think_s > 0) {
        const double ns = thinking_.exponential(options_.think_s) * 1e9;
        request.arrival_ns = std::llround(std::min(ns, static_cast<double>(kMaxTimeNs)));
      } else {
        request.arrival_ns = 0;
      }
    }
  }

  const SyntheticOptions& options_;
  int32_t num_sessions_ = 0;
  RandomStream gaps_, inputs_, outputs_, prefixes_, turns_, thinking_, prompts_;
};

}  // namespace

Result<Workload> make_synthetic(const SyntheticOptions& options) {
  QUIRE_RETURN_IF_ERROR(options.validate());
  Workload workload = Generator(options).make();
  QUIRE_RETURN_IF_ERROR(workload.validate().with_context("workload"));
  return workload;
}

}  // namespace quire::sim
