#include "roofline/calibrate/calibrate_operators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/rng.h"
#include "roofline/calibrate/pattern_search.h"

namespace quire {
namespace {

constexpr size_t kMinSamples = 8;  // of each half
// One constant is fitted for this many samples of the first half. The last parameters of an
// operator matter least, and are kept if samples are few.
constexpr size_t kSamplesPerConstant = 4;
// Caches make small operators look faster than memory allows, by less than this factor; a wrong
// peak or unit differs by more.
constexpr double kImpossible = 0.7;

template <typename Sample>
struct Split {
  std::vector<Sample> train;
  std::vector<Sample> test;
  int64_t num_impossible = 0;
};

uint64_t mix(uint64_t hash, double value) {
  hash ^= static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

// All rows of one weight shape go to the same half.
uint64_t shape_hash(const GemmSample& sample, uint64_t seed) {
  return mix(mix(seed, sample.work.n), sample.work.k);
}
uint64_t shape_hash(const AttentionSample& sample, uint64_t seed) {
  uint64_t hash = mix(mix(seed, sample.work.num_heads), sample.work.num_kv_heads);
  hash = mix(mix(hash, sample.work.qk_dim), sample.batch);
  return mix(mix(mix(hash, sample.num_tokens), sample.context), sample.work.window);
}

uint64_t shape_hash(const ExpertsSample& sample, uint64_t seed) {
  const ExpertsWork& work = sample.work;
  const uint64_t hash = mix(mix(mix(seed, work.hidden_size), work.down_depth), work.rows);
  return mix(mix(hash, work.distinct), work.foreign_rows);
}
uint64_t shape_hash(const CollectiveSample& sample, uint64_t seed) {
  return mix(mix(seed, sample.num_devices), sample.bytes);
}

template <typename Sample>
Result<Split<Sample>> split(std::span<const Sample> samples, const Hardware& hardware,
                            std::string_view what, uint64_t seed) {
  Split<Sample> result;
  for (const Sample& sample : samples) {
    if (sample.us < kImpossible * analytic_time(sample, hardware).bound_us) {
      ++result.num_impossible;
      continue;
    }
    const uint64_t hash = shape_hash(sample, seed);
    ((hash ^ (hash >> 29)) % 2 == 0 ? result.train : result.test).push_back(sample);
  }
  const auto total = static_cast<int64_t>(samples.size());
  if (result.num_impossible * 20 > total) {
    return invalid_argument(
        "{}: {} of {} samples are faster than the limits of {} allow: a wrong unit, data type or "
        "device, or times that do not cover the kernel",
        what, result.num_impossible, total, hardware.name);
  }
  if (result.train.size() < kMinSamples || result.test.size() < kMinSamples) {
    return invalid_argument("{}: expected at least {} usable samples, got {}", what,
                            2 * kMinSamples, result.train.size() + result.test.size());
  }
  return result;
}

template <typename Sample>
std::vector<Sample> thinned(const std::vector<Sample>& samples, int64_t max_samples) {
  const auto wanted = static_cast<size_t>(max_samples);
  if (samples.size() <= wanted) return samples;
  std::vector<Sample> result;
  const double stride = static_cast<double>(samples.size()) / static_cast<double>(wanted);
  for (size_t i = 0; i < wanted; ++i) {
    result.push_back(samples[static_cast<size_t>(static_cast<double>(i) * stride)]);
  }
  return result;
}

struct Errors {
  double mape = 0;
  double bias = 0;
};

template <typename Sample>
Errors errors(const std::vector<Sample>& samples, const std::function<double(const Sample&)>& us) {
  Errors sum;
  for (const Sample& sample : samples) {
    const double error = us(sample) / sample.us - 1;
    sum.mape += std::abs(error);
    sum.bias += error;
  }
  const double scale = 100.0 / static_cast<double>(samples.size());
  return {sum.mape * scale, sum.bias * scale};
}

double table_us(const OperatorTables& tables, const GemmSample& sample, const Hardware& hardware) {
  KernelTime time = analytic_time(sample, hardware);
  tables.apply(sample.work, time);
  return time.predicted_us;
}

double table_us(const OperatorTables& tables, const ExpertsSample& sample,
                const Hardware& hardware) {
  KernelTime time = analytic_time(sample, hardware);
  tables.apply(sample.work, time);
  return time.predicted_us;
}

double table_us(const OperatorTables& tables, const AttentionSample& sample,
                const Hardware& hardware) {
  KernelTime time = analytic_time(sample, hardware);
  if (sample.num_tokens > 1) {
    const std::vector<PromptChunk> chunks(static_cast<size_t>(sample.batch),
                                          {sample.num_tokens, sample.context});
    tables.apply_prefill(sample.work, chunks, time);
  } else {
    const int32_t keys = sample.context + 1;
    const int32_t seen = sample.work.window > 0 ? std::min(keys, sample.work.window) : keys;
    tables.apply_decode(sample.work, sample.batch, static_cast<double>(sample.batch) * seen, time);
  }
  return time.predicted_us;
}

OperatorTables tables_of(const Hardware& hardware, const std::vector<GemmSample>& samples) {
  return OperatorTables(hardware, samples, {});
}
OperatorTables tables_of(const Hardware& hardware, const std::vector<AttentionSample>& samples) {
  return OperatorTables(hardware, {}, samples);
}
OperatorTables tables_of(const Hardware& hardware, const std::vector<ExpertsSample>& samples) {
  return OperatorTables(hardware, {}, {}, samples);
}

template <typename Sample>
Result<FitReport> fit(std::span<const Sample> samples, std::string what, Hardware& hardware,
                      std::span<const SearchParameter> parameters, const FitOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Split<Sample> halves, split(samples, hardware, what, options.seed));
  const std::function<double(const Sample&)> predicted = [&](const Sample& sample) {
    return analytic_time(sample, hardware).predicted_us;
  };
  if (!options.judge_only) {
    const std::vector<Sample> fitted = thinned(halves.train, options.max_fit_samples);
    const size_t num_fitted = std::min(parameters.size(), fitted.size() / kSamplesPerConstant);
    pattern_search(parameters.first(num_fitted), [&] { return errors(fitted, predicted).mape; });
  }
  FitReport report{.what = std::move(what),
                   .num_train = static_cast<int64_t>(halves.train.size()),
                   .num_test = static_cast<int64_t>(halves.test.size()),
                   .num_impossible = halves.num_impossible};
  report.train_mape = errors(halves.train, predicted).mape;
  const Errors test = errors(halves.test, predicted);
  report.test_mape = test.mape;
  report.test_bias = test.bias;
  if constexpr (!std::is_same_v<Sample, CollectiveSample>) {
    if (!options.judge_tables) return report;
    const OperatorTables tables = tables_of(hardware, halves.train);
    const std::function<double(const Sample&)> tabled = [&](const Sample& sample) {
      return table_us(tables, sample, hardware);
    };
    report.table_test_mape = errors(halves.test, tabled).mape;
  }
  return report;
}

// Removes the samples that took about as long as the host's dispatch, and returns their number.
int64_t drop_dispatched(std::vector<GemmSample>& samples, const Hardware& hardware) {
  constexpr double kLongestLaunchUs = 20;  // of a kernel inside a graph
  constexpr double kHidden = 4;  // a kernel longer by this factor hides the dispatch of the next
  if (samples.empty() || hardware.num_units == 0) return 0;
  std::vector<double> times;
  times.reserve(samples.size());
  for (const GemmSample& sample : samples) times.push_back(sample.us);
  const auto floor = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 20);
  std::nth_element(times.begin(), floor, times.end());
  const double floor_us = *floor;
  if (floor_us <= kLongestLaunchUs) return 0;
  return static_cast<int64_t>(std::erase_if(
      samples, [&](const GemmSample& sample) { return sample.us < kHidden * floor_us; }));
}

bool is_fp8(const AttentionSample& sample) { return sample.work.kv.math == MathType::kFp8; }

}  // namespace

Result<FitReport> fit_gemm(std::span<const GemmSample> samples, const NumberFormat& format,
                           Hardware& hardware, const FitOptions& options) {
  std::vector<GemmSample> chosen;
  std::copy_if(
      samples.begin(), samples.end(), std::back_inserter(chosen),
      [&](const GemmSample& s) { return kernel_kind(s.work.weights) == kernel_kind(format); });
  const int64_t num_dispatched = drop_dispatched(chosen, hardware);
  GemmModel& model = hardware.gemm[kernel_kind(format)] = hardware.gemm_model(format);
  if (!options.judge_only) model.shares.clear();
  if (model.cache_bytes_per_s <= 0 && !options.judge_only)
    model.cache_bytes_per_s = 10 * hardware.memory_bytes_per_s;
  const double memory = hardware.memory_bytes_per_s;
  const double least_us = num_dispatched > 0 ? model.launch_us : 0.01;
  const double most_us = num_dispatched > 0 ? model.launch_us : 1000;
  std::vector<SearchParameter> parameters = {{&model.compute_share, 0.01, 1},
                                             {&model.memory_share, 0.01, 1},
                                             {&model.launch_us, least_us, most_us},
                                             {&model.exponent, 1, 20}};
  if (hardware.num_units > 0) {
    parameters.insert(parameters.end(), {{&model.tile_us, 0.001, 100},
                                         {&model.cache_bytes_per_s, memory, 100 * memory},
                                         {&model.split_traffic, 0.05, 50},
                                         {&model.split_us, 0.05, 50}});
    const MathType math = hardware.effective_math(format.math);
    if (math != MathType::kBf16 && math != MathType::kF32 && !options.judge_only) {
      // The share must be above 0, since the search multiplies.
      if (model.quantize_share <= 0) model.quantize_share = 0.5;
      if (model.quantize_row_us <= 0) model.quantize_row_us = 0.001;
      parameters.push_back({&model.quantize_share, 0.01, 10});
      parameters.push_back({&model.quantize_row_us, 1e-5, 1});
    }
  }
  Result<FitReport> report =
      fit<GemmSample>(chosen, fmt::format("gemm {}", to_string(kernel_kind(format))), hardware,
                      parameters, options);
  if (report.ok()) report->num_dispatched = num_dispatched;
  return report;
}

Result<FitReport> fit_prefill_attention(std::span<const AttentionSample> samples,
                                        const NumberFormat& kv, Hardware& hardware,
                                        const FitOptions& options) {
  const bool fp8 = kv.math == MathType::kFp8;
  std::vector<AttentionSample> chosen;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(chosen),
               [&](const AttentionSample& s) { return s.num_tokens > 1 && is_fp8(s) == fp8; });
  // Kernels cut queries into tiles in different ways: each way is fitted, and the best is kept.
  struct Tiling {
    int32_t rows;
    int32_t min_rows;
    bool packs_heads;
  };
  constexpr Tiling kTilings[] = {
      {128, 16, true}, {64, 16, true}, {64, 64, false}, {128, 128, false}, {128, 64, true}};
  PrefillAttentionModel& model = fp8 ? hardware.prefill_attention_fp8 : hardware.prefill_attention;
  if (options.judge_only) {
    return fit<AttentionSample>(chosen, "prefill attention", hardware, {}, options);
  }
  const PrefillAttentionModel start = model;
  PrefillAttentionModel best = start;
  Result<FitReport> best_report = invalid_argument("no tiling");
  for (const Tiling& tiling : kTilings) {
    model = start;
    model.tile_rows = tiling.rows;
    model.min_tile_rows = tiling.min_rows;
    model.packs_heads = tiling.packs_heads;
    std::vector<SearchParameter> parameters = {{&model.compute_share, 0.01, 1},
                                               {&model.memory_share, 0.01, 1},
                                               {&model.softmax_flops, 1, 1e5},
                                               {&model.exponent, 1, 20},
                                               {&model.launch_us, 0.01, 1000}};
    if (hardware.num_units > 0) {
      model.cache_write = std::max(model.cache_write, 1.0);  // above 0, since the search multiplies
      parameters.insert(parameters.end(),
                        {{&model.tile_us, 0.01, 100}, {&model.cache_write, 1e-3, 100}});
    }
    Result<FitReport> report = fit<AttentionSample>(
        chosen, fp8 ? "prefill attention fp8" : "prefill attention", hardware, parameters, options);
    if (!report.ok()) return report;
    if (!best_report.ok() || report->train_mape < best_report->train_mape) {
      best_report = report;
      best = model;
    }
  }
  model = best;
  return best_report;
}

Result<FitReport> fit_decode_attention(std::span<const AttentionSample> samples,
                                       const NumberFormat& kv, Hardware& hardware,
                                       const FitOptions& options) {
  const bool fp8 = kv.math == MathType::kFp8;
  std::vector<AttentionSample> chosen;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(chosen),
               [&](const AttentionSample& s) { return s.num_tokens == 1 && is_fp8(s) == fp8; });
  DecodeAttentionModel& model = fp8 ? hardware.decode_attention_fp8 : hardware.decode_attention;
  std::vector<SearchParameter> parameters = {{&model.memory_share, 0.01, 1},
                                             {&model.launch_us, 0.01, 1000},
                                             {&model.compute_share, 0.01, 1},
                                             {&model.exponent, 1, 20}};
  if (hardware.num_units > 0) {
    parameters.insert(parameters.end(), {{&model.unit_share, 0.01, 100},
                                         {&model.request_us, 0.001, 100},
                                         {&model.combine_us, 0.001, 100}});
  }
  return fit<AttentionSample>(chosen, fp8 ? "decode attention fp8" : "decode attention", hardware,
                              parameters, options);
}

namespace {

// Returns FitReport::times_bf16.
double times_of_bf16(std::span<const ExpertsSample> samples, const NumberFormat& format) {
  using Shape = std::tuple<double, double, double, double, double>;
  const auto shape = [](const ExpertsWork& work) -> Shape {
    return {work.hidden_size, work.down_depth, work.rows, work.distinct, work.foreign_rows};
  };
  const KernelKind wide = kernel_kind(NumberFormat{16, MathType::kBf16});
  if (format.bits >= 16) return 0;
  std::map<Shape, double> wide_us;
  for (const ExpertsSample& sample : samples) {
    if (sample.balanced && kernel_kind(sample.work.weights) == wide) {
      wide_us.emplace(shape(sample.work), sample.us);
    }
  }
  std::vector<double> ratios;
  for (const ExpertsSample& sample : samples) {
    if (!sample.balanced || kernel_kind(sample.work.weights) != kernel_kind(format)) continue;
    const auto same = wide_us.find(shape(sample.work));
    if (same != wide_us.end()) ratios.push_back(sample.us / same->second);
  }
  constexpr size_t kMinRatios = 30;
  if (ratios.size() < kMinRatios) return 0;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

Result<FitReport> experts_report(std::span<const ExpertsSample> samples, const NumberFormat& format,
                                 bool balanced, Hardware& hardware,
                                 std::span<const SearchParameter> parameters,
                                 const FitOptions& options) {
  std::vector<ExpertsSample> chosen;
  std::copy_if(
      samples.begin(), samples.end(), std::back_inserter(chosen), [&](const ExpertsSample& s) {
        return kernel_kind(s.work.weights) == kernel_kind(format) && s.balanced == balanced;
      });
  return fit<ExpertsSample>(chosen,
                            fmt::format("experts {} {}", to_string(kernel_kind(format)),
                                        balanced ? "balanced" : "skewed"),
                            hardware, parameters, options);
}

}  // namespace

Result<FitReport> fit_experts(std::span<const ExpertsSample> samples, const NumberFormat& format,
                              Hardware& hardware, const FitOptions& options) {
  constexpr double kUntuned = 1.25;
  const double times_bf16 = times_of_bf16(samples, format);
  if (times_bf16 > kUntuned && !options.fit_untuned && !options.judge_only) {
    Hardware same = hardware;
    FitOptions judge = options;
    judge.judge_only = true;
    Result<FitReport> report = fit_experts(samples, format, same, judge);
    if (report.ok()) report->untuned = true;
    return report;
  }
  ExpertsModel& model = hardware.experts[kernel_kind(format)] = hardware.experts_model(format);
  std::vector<SearchParameter> parameters;
  if (hardware.num_units > 0 && !options.judge_only) {
    model.foreign_us = std::max(model.foreign_us, 1.0);  // above 0, since the search multiplies
    parameters = {{&model.launch_us, 0.1, 1000},    {&model.expert_us, 1e-3, 100},
                  {&model.compute_share, 0.01, 1},  {&model.memory_share, 0.01, 1},
                  {&model.exponent, 1, 20},         {&model.row_share, 0.01, 10},
                  {&model.foreign_share, 0.01, 10}, {&model.foreign_us, 1e-3, 1000}};
  }
  Result<FitReport> report = experts_report(samples, format, true, hardware, parameters, options);
  if (report.ok()) report->times_bf16 = times_bf16;
  return report;
}

Result<FitReport> judge_skewed_experts(std::span<const ExpertsSample> samples,
                                       const NumberFormat& format, const Hardware& hardware,
                                       const FitOptions& options) {
  Hardware same = hardware;
  return experts_report(samples, format, false, same, {}, options);
}

Result<FitReport> fit_collectives(std::span<const CollectiveSample> samples, Hardware& hardware,
                                  const FitOptions& options) {
  const bool library = samples.empty() || samples.front().library;
  if (!library && !hardware.small_all_reduce) hardware.small_all_reduce.emplace();
  CollectiveModel& model = library ? hardware.collective : *hardware.small_all_reduce;
  std::vector<SearchParameter> parameters = {{&model.alpha_us, 0.01, 1000},
                                             {&model.alpha_per_device_us, 0.001, 100},
                                             {&model.share, 0.01, 1}};
  if (!options.judge_only) {
    model.bytes_per_s = 0;
    if (library) {
      model.ramp_us = std::max(model.ramp_us, 1.0);  // above 0, since the search multiplies
      parameters.push_back({&model.ramp_us, 0.001, 1000});
    }
  }
  return fit<CollectiveSample>(samples, library ? "collectives" : "small all-reduces", hardware,
                               parameters, options);
}

Status check_not_worse(std::span<const FitReport> written, std::span<const FitReport> replaced) {
  constexpr double kNoise = 0.5;  // percentage points
  std::string worse;
  for (const FitReport& after : written) {
    const auto before = std::find_if(replaced.begin(), replaced.end(),
                                     [&](const FitReport& r) { return r.what == after.what; });
    if (before == replaced.end() || after.test_mape <= before->test_mape + kNoise) continue;
    worse += fmt::format("{}{} {:.1f} % instead of {:.1f} %", worse.empty() ? "" : ", ", after.what,
                         after.test_mape, before->test_mape);
  }
  if (worse.empty()) return {};
  return invalid_argument("expected no larger errors than before, got {}", worse);
}

}  // namespace quire
