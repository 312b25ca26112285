#include "sim/random/distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text_fields.h"

namespace quire::sim {
namespace {

constexpr size_t kMaxEmpiricalBytes = size_t{256} << 20;

Result<std::vector<int32_t>> read_lengths(std::string_view file) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(std::string(file), kMaxEmpiricalBytes));
  std::vector<int32_t> values;
  LineReader lines(text, file);
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    QUIRE_ASSIGN_OR_RETURN(
        const int64_t value,
        parse_integer(*line, 1, LengthDistribution::kMaxLength, lines.where() + ": length"));
    values.push_back(static_cast<int32_t>(value));
  }
  if (values.empty()) return invalid_argument("{}: expected lengths, one a line, got none", file);
  return values;
}

struct Form {
  std::string_view name;
  DistributionKind kind;
  size_t num_parameters;
};
constexpr Form kForms[] = {{"constant", DistributionKind::kConstant, 1},
                           {"uniform", DistributionKind::kUniform, 2},
                           {"range", DistributionKind::kUniform, 2},
                           {"spread", DistributionKind::kUniform, 2},
                           {"normal", DistributionKind::kNormal, 2},
                           {"lognormal", DistributionKind::kLognormal, 2},
                           {"exponential", DistributionKind::kExponential, 1},
                           {"pareto", DistributionKind::kPareto, 2}};

}  // namespace

LengthDistribution LengthDistribution::constant(int32_t value) {
  LengthDistribution d;
  d.a_ = value;
  return d;
}

LengthDistribution LengthDistribution::weighted(std::vector<int32_t> values,
                                                const std::vector<double>& weights) {
  LengthDistribution d;
  d.kind_ = DistributionKind::kEmpirical;
  d.values_ = std::move(values);
  double total = 0;
  for (const double weight : weights) total += weight;
  double sum = 0;
  for (const double weight : weights) d.cumulative_.push_back((sum += weight) / total);
  return d;
}

Result<LengthDistribution> LengthDistribution::parse(std::string_view text, std::string_view what) {
  const std::vector<std::string_view> parts = split(text, ':');
  LengthDistribution d;
  if (parts[0] == "empirical") {
    d.kind_ = DistributionKind::kEmpirical;
    const std::string_view file = text.substr(std::min(text.size(), parts[0].size() + 1));
    QUIRE_ASSIGN_OR_RETURN(d.values_, read_lengths(file));
    return d;
  }
  const auto form = std::find_if(std::begin(kForms), std::end(kForms),
                                 [&](const Form& f) { return f.name == parts[0]; });
  const std::string context(what);
  if (form == std::end(kForms) && parts.size() == 1) {  // a plain number
    QUIRE_ASSIGN_OR_RETURN(const int64_t value, parse_integer(text, 1, kMaxLength, context));
    return constant(static_cast<int32_t>(value));
  }
  if (form == std::end(kForms) || parts.size() != form->num_parameters + 1) {
    return invalid_argument(
        "{}: expected N, constant:N, uniform:LOW:HIGH, range:N:RATIO, spread:N:RATIO, "
        "normal:MEAN:DEVIATION, lognormal:MEAN:DEVIATION, exponential:MEAN, pareto:LEAST:ALPHA or "
        "empirical:FILE, got '{}'",
        what, text);
  }
  d.kind_ = form->kind;
  QUIRE_ASSIGN_OR_RETURN(d.a_, parse_number(parts[1], 1, kMaxLength, context));
  if (form->num_parameters == 2) {
    const bool ratio = form->name == "range" || form->name == "spread";
    const double high = ratio ? 1 : kMaxLength;
    QUIRE_ASSIGN_OR_RETURN(d.b_, parse_number(parts[2], 0, high, context));
  }
  if (form->name == "range") {
    d.b_ = std::exchange(d.a_, std::ceil(d.b_ * d.a_)) + 0.0;
  } else if (form->name == "spread") {
    const double middle = d.a_, half = std::floor(d.b_ * middle);
    d.a_ = middle - half;
    d.b_ = middle + half;
  }
  if ((d.kind_ == DistributionKind::kUniform && d.b_ < d.a_) ||
      (d.kind_ == DistributionKind::kPareto && d.b_ <= 0)) {
    return invalid_argument("{}: '{}' is empty", what, text);
  }
  return d;
}

int32_t LengthDistribution::draw(RandomStream& random) const {
  double x = a_;
  switch (kind_) {
    case DistributionKind::kConstant:
      break;
    case DistributionKind::kUniform:
      x = a_ + static_cast<double>(random.below(static_cast<uint64_t>(b_ - a_) + 1));
      break;
    case DistributionKind::kNormal:
      x = random.normal(a_, b_);
      break;
    case DistributionKind::kLognormal: {
      const double variance = std::log1p(b_ * b_ / (a_ * a_));
      x = std::exp(random.normal(std::log(a_) - 0.5 * variance, std::sqrt(variance)));
      break;
    }
    case DistributionKind::kExponential:
      x = random.exponential(a_);
      break;
    case DistributionKind::kPareto:
      x = a_ * std::pow(random.uniform(), -1.0 / b_);
      break;
    case DistributionKind::kEmpirical:
      if (cumulative_.empty()) return values_[random.below(values_.size())];
      {
        const auto it =
            std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, random.uniform());
        x = values_[static_cast<size_t>(it - cumulative_.begin())];
      }
      break;
  }
  return static_cast<int32_t>(std::llround(std::clamp<double>(x, 1, kMaxLength)));
}

}  // namespace quire::sim
