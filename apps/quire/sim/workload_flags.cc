#include "quire/sim/workload_flags.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text_fields.h"
#include "facade/images/picture_sizes.h"
#include "quire/flag_checks.h"
#include "quire/output_file.h"
#include "quire/sim/deployment_flags.h"
#include "sim/workload/adapters.h"
#include "sim/workload/client_jitter.h"
#include "sim/workload/pictures.h"
#include "sim/workload/servegen.h"
#include "sim/workload/synthetic.h"
#include "sim/workload/trace.h"

namespace quire::cli {

namespace {

void add_adapter_flags(CLI::App& verb, WorkloadFlags& flags) {
  constexpr const char* kAdapters = "Workload: adapters";
  verb.add_option("--num-loras", flags.num_loras,
                  "Number of LoRA adapters that sessions choose from; 0: no adapters")
      ->check(in_range(0, 1 << 20))
      ->group(kAdapters);
  verb.add_option("--lora-skew", flags.lora_skew,
                  "How unevenly adapters are chosen: the k-th adapter is chosen 1/k^SKEW times as "
                  "often as the first")
      ->check(between(0, 8))
      ->capture_default_str()
      ->group(kAdapters);
}

void add_image_flags(CLI::App& verb, WorkloadFlags& flags) {
  constexpr const char* kImages = "Workload: images";
  verb.add_option("--images-per-request", flags.images_per_request,
                  "Number of images at the beginning of each prompt, all different; their tokens "
                  "are added to --input-len")
      ->check(in_range(0, 256))
      ->capture_default_str()
      ->group(kImages);
  verb.add_option("--image-share", flags.image_share, "Share of sessions with images")
      ->check(between(0, 1))
      ->capture_default_str()
      ->group(kImages);
  verb.add_option("--image-size", flags.image_size, "Size of each image in pixels, as WIDTHxHEIGHT")
      ->capture_default_str()
      ->group(kImages);
}

void add_client_flags(CLI::App& verb, WorkloadFlags& flags) {
  constexpr const char* kClient = "Workload: the client";
  verb.add_option("--length-jitter", flags.length_jitter_percent,
                  "Largest random variation of lengths in percent")
      ->check(between(0, 99))
      ->group(kClient);
  verb.add_option("--client-jitter-ms", flags.client_jitter_ms,
                  "Largest random delay of a request in milliseconds; default: 5 in a closed loop, "
                  "whose requests would otherwise stay in lockstep, else 0")
      ->check(milliseconds())
      ->group(kClient);
}

void add_trace_flags(CLI::App& verb, WorkloadFlags& flags) {
  constexpr const char* kTrace = "Workload: a trace";
  verb.add_option(
          "--trace", flags.trace,
          "File with a recorded trace (a .gz file is unpacked), or folder of ServeGen clients")
      ->group(kTrace);
  verb.add_option("--trace-format", flags.trace_format,
                  "Format of the trace: azure, burstgpt, vidur, mooncake, bailian, vllm, servegen, "
                  "quire or columns; default: as its first line shows")
      ->group(kTrace);
  verb.add_option(
          "--rate-scale", flags.rate_scale,
          "Factor of the arrival rate: requests arrive this many times as fast as in the trace")
      ->check(above_zero())
      ->capture_default_str()
      ->group(kTrace);
  verb.add_option("--trace-start", flags.trace_start_s,
                  "ServeGen: second of the recording at which the workload begins")
      ->check(seconds())
      ->group(kTrace);
  verb.add_option("--save-trace", flags.save_trace,
                  "Write the workload to this file, in Quire's own format");
}

void add_synthetic_flags(CLI::App& verb, WorkloadFlags& flags) {
  constexpr const char* kSynthetic = "Workload: synthetic";
  verb.add_option("--num-requests", flags.num_requests,
                  "Number of requests; default: 1000, or the whole trace")
      ->check(at_least(1));
  verb.add_option("--duration", flags.duration_s, "Seconds during which requests arrive")
      ->check(seconds(1e-9));
  verb.add_option("--rate", flags.rate,
                  "Arrival rate in requests per second; inf: all at once; "
                  "SECOND:RATE,SECOND:RATE,…: linear ramps between these points")
      ->capture_default_str()
      ->group(kSynthetic);
  verb.add_option("--arrivals", flags.arrivals,
                  "Distribution of the times between arrivals: poisson, gamma:CV, weibull:SHAPE or "
                  "constant")
      ->capture_default_str()
      ->group(kSynthetic);
  const std::string lengths =
      "N, uniform:LOW:HIGH, range:N:RATIO, spread:N:RATIO, normal:MEAN:DEVIATION, "
      "lognormal:MEAN:DEVIATION, exponential:MEAN, pareto:LEAST:ALPHA or empirical:FILE";
  verb.add_option("--input-len", flags.input_len,
                  "Distribution of the number of prompt tokens: " + lengths)
      ->capture_default_str()
      ->group(kSynthetic);
  verb.add_option("--output-len", flags.output_len,
                  "Distribution of the number of output tokens, given like --input-len")
      ->capture_default_str()
      ->group(kSynthetic);
  verb.add_option("--prefix-len", flags.prefix_len,
                  "Tokens of a shared prefix, which are added to --input-len")
      ->check(in_range(0, sim::LengthDistribution::kMaxLength))
      ->group(kSynthetic);
  verb.add_option("--num-prefixes", flags.num_prefixes, "Number of different shared prefixes")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kSynthetic);
  verb.add_option("--turns", flags.turns,
                  "Distribution of the number of turns of a session, given like --input-len; each "
                  "turn's prompt contains the earlier turns")
      ->capture_default_str()
      ->group(kSynthetic);
  verb.add_option("--think-time", flags.think_s,
                  "Mean time in seconds between an answer and the next turn")
      ->check(seconds())
      ->group(kSynthetic);
  verb.add_option("--num-prompts", flags.num_prompts,
                  "Number of different prompts; 0: all prompts differ")
      ->check(at_least(0))
      ->group(kSynthetic);
  verb.add_option(
          "--concurrency", flags.concurrency,
          "Closed loop: number of requests at the same time; the next one is sent when one ends")
      ->check(at_least(1))
      ->group(kSynthetic);
}

}  // namespace

void add_workload_flags(CLI::App& verb, WorkloadFlags& flags) {
  add_trace_flags(verb, flags);
  add_synthetic_flags(verb, flags);
  add_adapter_flags(verb, flags);
  add_image_flags(verb, flags);
  add_client_flags(verb, flags);
}

namespace {

constexpr int64_t kAll = int64_t{1} << 30;
constexpr double kClosedLoopJitterMs = 5;

Result<sim::SyntheticOptions> synthetic_options(const WorkloadFlags& flags, uint64_t seed,
                                                int32_t max_model_len) {
  sim::SyntheticOptions options;
  options.num_requests = flags.num_requests > 0 ? flags.num_requests
                         : flags.duration_s     ? kAll
                                                : 1000;
  options.duration_s = flags.duration_s;
  QUIRE_ASSIGN_OR_RETURN(options.rate, sim::RateProfile::parse(flags.rate, "--rate"));
  QUIRE_ASSIGN_OR_RETURN(options.arrivals,
                         sim::ArrivalProcess::parse(flags.arrivals, "--arrivals"));
  QUIRE_ASSIGN_OR_RETURN(options.input,
                         sim::LengthDistribution::parse(flags.input_len, "--input-len"));
  QUIRE_ASSIGN_OR_RETURN(options.output,
                         sim::LengthDistribution::parse(flags.output_len, "--output-len"));
  QUIRE_ASSIGN_OR_RETURN(options.turns, sim::LengthDistribution::parse(flags.turns, "--turns"));
  options.prefix_tokens = flags.prefix_len;
  options.num_prefixes = flags.num_prefixes;
  options.think_s = flags.think_s;
  options.num_prompts = flags.num_prompts;
  options.max_model_len = max_model_len;
  options.seed = seed;
  if (flags.concurrency > 0) {
    options.closed_loop = sim::ClosedLoop{.concurrency = flags.concurrency,
                                          .think_ns = std::llround(flags.think_s * 1e9)};
  }
  if ((options.rate.infinite() || flags.concurrency > 0) && options.num_requests == kAll) {
    return invalid_argument(
        "--num-requests: expected a number, because the arrivals have no times (--rate inf or "
        "--concurrency)");
  }
  return options;
}

Result<sim::Workload> read_workload(const WorkloadFlags& flags, uint64_t seed) {
  std::error_code error;
  if (std::filesystem::is_directory(flags.trace, error)) {
    return sim::read_servegen(flags.trace,
                              {.begin_s = flags.trace_start_s,
                               .duration_s = flags.duration_s.value_or(3600),
                               .rate_factor = flags.rate_scale,
                               .max_requests = flags.num_requests > 0 ? flags.num_requests : kAll,
                               .seed = seed});
  }
  sim::TraceOptions options;
  if (!flags.trace_format.empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.format, sim::parse_trace_format(flags.trace_format));
  }
  if (flags.num_requests > 0) options.max_requests = flags.num_requests;
  QUIRE_ASSIGN_OR_RETURN(const sim::RateProfile rate,
                         sim::RateProfile::parse(flags.rate, "--rate"));
  QUIRE_ASSIGN_OR_RETURN(const sim::ArrivalProcess arrivals,
                         sim::ArrivalProcess::parse(flags.arrivals, "--arrivals"));
  sim::RandomStream random(seed, 0x6c656e67u);
  double expected = 0;
  options.lengths_at = [&](int64_t) -> int64_t {
    expected += arrivals.draw_gap(random);
    const double time_s = rate.time_of(expected);
    return time_s < 0 ? sim::kNever / 4 : std::llround(time_s * 1e9);
  };
  QUIRE_ASSIGN_OR_RETURN(sim::Workload workload, sim::read_trace(flags.trace, options));
  sim::scale_rate(workload, flags.rate_scale);
  if (flags.duration_s) {
    const auto end = std::find_if(
        workload.requests.begin(), workload.requests.end(), [&](const sim::SimRequest& r) {
          return r.previous < 0 && static_cast<double>(r.arrival_ns) > *flags.duration_s * 1e9;
        });
    workload.requests.erase(end, workload.requests.end());
  }
  if (flags.concurrency > 0)
    workload.closed_loop = sim::ClosedLoop{.concurrency = flags.concurrency};
  return workload;
}

}  // namespace

Result<PictureSize> parse_picture_size(const std::string& text, const std::string& flag) {
  constexpr int64_t kMaxSide = 16'384, kMaxPixels = 25'000'000;
  const std::vector<std::string_view> sides = split(text, 'x');
  if (sides.size() != 2) return invalid_argument("{}: expected WIDTHxHEIGHT, got '{}'", flag, text);
  QUIRE_ASSIGN_OR_RETURN(const int64_t width, parse_integer(sides[0], 1, kMaxSide, flag));
  QUIRE_ASSIGN_OR_RETURN(const int64_t height, parse_integer(sides[1], 1, kMaxSide, flag));
  if (width * height > kMaxPixels) {
    return invalid_argument("{}: expected at most {} pixels, got {}", flag, kMaxPixels,
                            width * height);
  }
  return PictureSize{static_cast<int32_t>(width), static_cast<int32_t>(height)};
}

Result<sim::Workload> workload_of(const WorkloadFlags& flags, const std::string& model,
                                  uint64_t seed, int32_t max_model_len) {
  QUIRE_RETURN_IF_ERROR(check_writable(flags.save_trace));
  Result<sim::Workload> workload = [&]() -> Result<sim::Workload> {
    if (!flags.trace.empty()) return read_workload(flags, seed);
    QUIRE_ASSIGN_OR_RETURN(const sim::SyntheticOptions options,
                           synthetic_options(flags, seed, max_model_len));
    return sim::make_synthetic(options);
  }();
  if (!workload.ok()) return workload;
  sim::assign_adapters({.num_adapters = flags.num_loras, .skew = flags.lora_skew, .seed = seed},
                       *workload);
  if (workload->requests.empty())
    return invalid_argument("workload: expected at least one request, got none");
  const double default_ms = workload->closed_loop ? kClosedLoopJitterMs : 0;
  sim::add_client_jitter(
      {.length_share = flags.length_jitter_percent / 100,
       .delay_ns = std::llround(flags.client_jitter_ms.value_or(default_ms) * 1e6),
       .seed = seed},
      *workload);
  if (flags.images_per_request > 0) {
    sim::PictureChoice pictures{
        .per_request = flags.images_per_request, .share = flags.image_share, .seed = seed};
    QUIRE_ASSIGN_OR_RETURN(const PictureSize size,
                           parse_picture_size(flags.image_size, "--image-size"));
    QUIRE_ASSIGN_OR_RETURN(pictures.items, picture_items(model, size.width, size.height));
    sim::add_pictures(pictures, *workload);
  }
  if (!flags.save_trace.empty()) {
    QUIRE_RETURN_IF_ERROR(write_file(flags.save_trace, sim::write_trace(*workload)));
  }
  return workload;
}

}  // namespace quire::cli
