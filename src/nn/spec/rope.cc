#include "nn/spec/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/threads/thread_team.h"
#include "kernels/api/kv_cache.h"

namespace quire {
namespace {

// A team of threads takes longer to wake up than fewer pairs take to compute.
constexpr int64_t kPairsWorthThreads = 4096;

// An odd dimension rounds up to a whole pair, as in transformers.
std::vector<double> base_frequencies(double theta, int32_t rotary_dim) {
  std::vector<double> inv_freq(static_cast<size_t>((rotary_dim + 1) / 2));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / rotary_dim);
  }
  return inv_freq;
}

// Only the first pairs are rotated; the frequencies of the others are zero.
void apply_proportional(const RopeConfig& config, std::vector<double>& inv_freq) {
  const auto pairs = static_cast<double>(inv_freq.size());
  const auto first = static_cast<size_t>(config.partial_rotary_factor * pairs);
  for (size_t i = 0; i < inv_freq.size(); ++i)
    inv_freq[i] = i < first ? inv_freq[i] / config.factor : 0.0;
}

// Returns the base that dynamic NTK scaling uses for a sequence of `length` tokens.
double dynamic_theta(const DynamicNtk& ntk, int64_t length) {
  const double ratio = static_cast<double>(length) / static_cast<double>(ntk.max_position);
  const double stretch = ntk.factor * ratio - (ntk.factor - 1.0);
  return ntk.theta * std::pow(stretch, static_cast<double>(ntk.dim) / (ntk.dim - 2));
}

// Llama 3.1: long wavelengths are divided by the factor, short ones are kept, and those in between
// are blended.
void apply_llama3(const RopeConfig& config, std::vector<double>& inv_freq) {
  const auto old_len = static_cast<double>(config.original_max_position_embeddings);
  for (double& freq : inv_freq) {
    const double wavelength = 2.0 * std::numbers::pi / freq;
    if (wavelength > old_len / config.low_freq_factor) {
      freq /= config.factor;
    } else if (wavelength >= old_len / config.high_freq_factor) {
      const double smooth = (old_len / wavelength - config.low_freq_factor) /
                            (config.high_freq_factor - config.low_freq_factor);
      freq = (1.0 - smooth) * freq / config.factor + smooth * freq;
    }
  }
}

// YaRN (Peng et al., 2023): returns the pair index at which a frequency makes `rotations` turns
// over the original context.
double yarn_correction_dim(const RopeConfig& config, double rotations, int32_t rotary_dim) {
  return rotary_dim *
         std::log(static_cast<double>(config.original_max_position_embeddings) /
                  (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

void apply_yarn(const RopeConfig& config, int32_t rotary_dim, RopeSpec& rope) {
  double low = yarn_correction_dim(config, config.beta_fast, rotary_dim);
  double high = yarn_correction_dim(config, config.beta_slow, rotary_dim);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < rope.inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double freq = rope.inv_freq[i];
    rope.inv_freq[i] = freq / config.factor * ramp + freq * (1.0 - ramp);
  }
  if (config.attention_factor) {
    rope.scale = *config.attention_factor;
  } else if (config.mscale.value_or(0.0) != 0.0 && config.mscale_all_dim.value_or(0.0) != 0.0) {
    rope.scale = yarn_mscale(config.factor, *config.mscale) /
                 yarn_mscale(config.factor, *config.mscale_all_dim);
  } else {
    rope.scale = yarn_mscale(config.factor, 1.0);
  }
}

// LongRoPE (Ding et al., 2024): divisors per pair that were found by search, one set for short and
// one for long served lengths.
void apply_long_rope(const RopeConfig& config, int64_t max_model_len, RopeSpec& rope) {
  const bool is_long = max_model_len > config.original_max_position_embeddings;
  const std::vector<double>& factors = is_long ? config.long_factor : config.short_factor;
  for (size_t i = 0; i < rope.inv_freq.size(); ++i) rope.inv_freq[i] /= factors[i];
  if (config.attention_factor) {
    rope.scale = *config.attention_factor;
  } else if (config.factor > 1.0) {
    const auto original = static_cast<double>(config.original_max_position_embeddings);
    rope.scale = std::sqrt(1.0 + std::log(config.factor) / std::log(original));
  }
}

Status check_factors(std::string_view name, const std::vector<double>& factors, size_t expected) {
  if (factors.size() != expected) {
    return invalid_argument("rope {}: expected {} numbers (half the rotary dimension), got {}",
                            name, expected, factors.size());
  }
  for (const double factor : factors) {
    if (!std::isfinite(factor) || factor <= 0.0) {
      return invalid_argument("rope {}: expected positive numbers, got {}", name, factor);
    }
  }
  return {};
}

Status check_sections(const RopeConfig& config, int64_t pairs) {
  if (config.sections.empty()) return {};
  int64_t sum = 0;
  for (const int64_t section : config.sections) sum += section;
  const auto [least, greatest] =
      std::minmax_element(config.sections.begin(), config.sections.end());
  if (config.sections.size() != 3 || *least < 0 || *greatest > pairs || sum != pairs) {
    return invalid_argument(
        "rope mrope_section: expected 3 numbers whose sum is half the rotary dimension, {}", pairs);
  }
  if (config.type == RopeType::kDynamic)
    return unimplemented("rope mrope_section: expected no dynamic scaling beside it");
  return {};
}

std::vector<uint8_t> pair_axes(const RopeConfig& config, size_t num_pairs) {
  std::vector<uint8_t> axes;
  if (config.sections.empty()) return axes;
  axes.resize(num_pairs, 0);
  for (size_t axis = 1; axis < 3; ++axis) {
    const auto count = static_cast<size_t>(config.sections[axis]);
    const auto before =
        static_cast<size_t>(config.sections[0] + (axis == 2 ? config.sections[1] : 0));
    const size_t first = config.sections_in_turn ? axis : before;
    const size_t step = config.sections_in_turn ? 3 : 1;
    for (size_t i = 0; i < count && first + i * step < num_pairs; ++i)
      axes[first + i * step] = static_cast<uint8_t>(axis);
  }
  return axes;
}

Status check_config(const RopeConfig& config, int32_t rotary_dim) {
  const auto positive = [](double x) { return std::isfinite(x) && x > 0.0; };
  const bool needs_even = config.type == RopeType::kYarn || config.type == RopeType::kLongRope;
  if (rotary_dim <= 0 || (needs_even && rotary_dim % 2 != 0)) {
    return invalid_argument("rope: expected {} rotary dimension, got {}",
                            needs_even ? "an even, positive" : "a positive", rotary_dim);
  }
  if (!positive(config.theta) || config.theta <= 1.0) {
    return invalid_argument("rope_theta: expected a number above 1, got {}", config.theta);
  }
  if (!positive(config.factor))
    return invalid_argument("rope factor: expected a positive number, got {}", config.factor);
  const bool scaled_by_length = config.type == RopeType::kYarn ||
                                config.type == RopeType::kLlama3 ||
                                config.type == RopeType::kLongRope;
  if (scaled_by_length && config.original_max_position_embeddings < 2) {
    return invalid_argument("rope original_max_position_embeddings: expected at least 2, got {}",
                            config.original_max_position_embeddings);
  }
  if (config.backwards && config.type == RopeType::kDynamic)
    return invalid_argument("dynamic rope: expected pairs that turn forwards");
  if (config.type == RopeType::kDynamic && (rotary_dim < 4 || config.max_position_embeddings < 1)) {
    return invalid_argument("dynamic rope: expected a rotary dimension above 2, got {}",
                            rotary_dim);
  }
  if (config.type == RopeType::kLlama3 &&
      !(config.high_freq_factor > config.low_freq_factor && positive(config.low_freq_factor))) {
    return invalid_argument("rope high_freq_factor: expected above low_freq_factor {}, got {}",
                            config.low_freq_factor, config.high_freq_factor);
  }
  if (config.type == RopeType::kYarn &&
      !(positive(config.beta_fast) && positive(config.beta_slow))) {
    return invalid_argument(
        "rope beta_fast and beta_slow: expected positive numbers, got {} and {}", config.beta_fast,
        config.beta_slow);
  }
  const auto pairs = static_cast<size_t>((rotary_dim + 1) / 2);
  QUIRE_RETURN_IF_ERROR(check_sections(config, static_cast<int64_t>(pairs)));
  if (config.type == RopeType::kLongRope) {
    QUIRE_RETURN_IF_ERROR(check_factors("short_factor", config.short_factor, pairs));
    QUIRE_RETURN_IF_ERROR(check_factors("long_factor", config.long_factor, pairs));
  }
  if (!config.freq_factors.empty()) return check_factors("rope_freqs", config.freq_factors, pairs);
  return {};
}

// Computes what rope_table() does for one position for all pairs, and equals it if the token's
// positions are equal.
void axis_tables(HostStream& stream, const RopeSpec& rope, const int32_t* axes, int64_t num_tokens,
                 float* cos, float* sin) {
  const int64_t pairs = rope.rotary_dim / 2;
  const int num_threads = num_tokens * pairs < kPairsWorthThreads ? 1 : stream.team().size();
  const auto fill = [&](int thread) {
    const WorkRange mine = split_work(num_tokens, 1, thread, num_threads);
    for (int64_t t = mine.begin; t < mine.end; ++t) {
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle = axes[3 * t + rope.pair_axes[static_cast<size_t>(i)]] *
                             rope.inv_freq[static_cast<size_t>(i)];
        cos[t * pairs + i] = static_cast<float>(std::cos(angle) * rope.scale);
        sin[t * pairs + i] = static_cast<float>(std::sin(angle) * rope.scale);
      }
    }
  };
  if (num_threads == 1) return fill(0);
  stream.team().run(fill);
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

Result<RopeSpec> make_rope(const RopeConfig& config, int32_t rotary_dim, int64_t max_model_len) {
  QUIRE_RETURN_IF_ERROR(check_config(config, rotary_dim));
  RopeSpec rope;
  rope.rotary_dim = rotary_dim + rotary_dim % 2;
  rope.inv_freq = base_frequencies(config.theta, rotary_dim);
  rope.pair_axes = pair_axes(config, rope.inv_freq.size());
  switch (config.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      for (double& freq : rope.inv_freq) freq /= config.factor;
      break;
    case RopeType::kDynamic:
      rope.dynamic =
          DynamicNtk{config.theta, config.factor, config.max_position_embeddings, rotary_dim};
      break;
    case RopeType::kYarn:
      apply_yarn(config, rotary_dim, rope);
      break;
    case RopeType::kLlama3:
      apply_llama3(config, rope.inv_freq);
      break;
    case RopeType::kLongRope:
      apply_long_rope(config, max_model_len, rope);
      break;
    case RopeType::kProportional:
      apply_proportional(config, rope.inv_freq);
      break;
  }
  for (size_t i = 0; i < config.freq_factors.size(); ++i)
    rope.inv_freq[i] /= config.freq_factors[i];
  if (config.backwards) {
    for (double& freq : rope.inv_freq) freq = -freq;
  }
  if (!std::isfinite(rope.scale) || rope.scale <= 0.0) {
    return invalid_argument("rope attention factor: expected a positive number, got {}",
                            rope.scale);
  }
  return rope;
}

void rope_tables(Stream& stream, const RopeSpec& rope, const TokenPositions& of_tokens,
                 int64_t num_tokens, float* cos, float* sin, double* scratch) {
  const int32_t* const positions = of_tokens.sequence;
  const int32_t pairs = rope.rotary_dim / 2;
  if (stream.device() != DeviceKind::kCpu) {  // positions cannot be read here; the op reads them
    const DynamicNtk dynamic = rope.dynamic.value_or(DynamicNtk{});
    return rope_table(stream, {.positions = positions,
                               .inv_freq = rope.inv_freq.data(),
                               .scale = rope.scale,
                               .dynamic_max_position = dynamic.max_position,
                               .dynamic_theta = dynamic.theta,
                               .dynamic_factor = dynamic.factor,
                               .cos = cos,
                               .sin = sin,
                               .num_tokens = num_tokens,
                               .rotary_dim = rope.rotary_dim});
  }
  if (of_tokens.axes != nullptr && !rope.pair_axes.empty()) {
    return axis_tables(static_cast<HostStream&>(stream), rope, of_tokens.axes, num_tokens, cos,
                       sin);
  }
  const auto fill = [&](int64_t begin, int64_t end, const double* inv_freq) {
    if (begin == end) return;
    rope_table(stream, {.positions = positions + begin,
                        .inv_freq = inv_freq,
                        .scale = rope.scale,
                        .cos = cos + begin * pairs,
                        .sin = sin + begin * pairs,
                        .num_tokens = end - begin,
                        .rotary_dim = rope.rotary_dim});
  };
  if (!rope.dynamic) return fill(0, num_tokens, rope.inv_freq.data());

  int64_t run_begin = 0;  // tokens within the original length share one base
  for (int64_t token = 0; token < num_tokens; ++token) {
    if (positions[token] < rope.dynamic->max_position) continue;
    fill(run_begin, token, rope.inv_freq.data());
    const double theta = dynamic_theta(*rope.dynamic, int64_t{positions[token]} + 1);
    for (int32_t i = 0; i < pairs; ++i)
      scratch[i] = 1.0 / std::pow(theta, 2.0 * i / rope.dynamic->dim);
    fill(token, token + 1, scratch);
    run_begin = token + 1;
  }
  fill(run_begin, num_tokens, rope.inv_freq.data());
}

}  // namespace quire
