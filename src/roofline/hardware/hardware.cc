#include "roofline/hardware/hardware.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <span>
#include <utility>

#include "base/nearest_name.h"

namespace quire {

// The generated hardware_data.cc defines this: the files of assets/hardware by name.
std::vector<std::pair<std::string, std::span<const std::byte>>> hardware_blobs();

namespace {

constexpr std::string_view kExtension = ".json";

std::string stem(const std::string& file_name) {
  return file_name.substr(0, file_name.size() - kExtension.size());
}

// Returns only letters and digits, in lower case: "H100 SXM", "h100-sxm" and "H100_SXM" are one
// name.
std::string normalised(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      result.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
  }
  return result;
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) {
    if (!result.empty()) result += ", ";
    result += name;
  }
  return result;
}

// Returns the constants of the kind of `weights`, or of the first kind that uses the same unit, or
// the defaults.
template <typename Model>
Model model_of(const std::map<KernelKind, Model>& models, const NumberFormat& weights,
               const Hardware& hardware) {
  const auto exact = models.find(kernel_kind(weights));
  if (exact != models.end()) return exact->second;
  const MathType math = hardware.effective_math(weights.math);
  const auto same_math = std::find_if(models.begin(), models.end(), [&](const auto& known) {
    return math_of(known.first) == math;
  });
  return same_math == models.end() ? Model{} : same_math->second;
}

}  // namespace

std::string_view to_string(CombinationRule rule) {
  switch (rule) {
    case CombinationRule::kSum:
      return "sum";
    case CombinationRule::kMax:
      return "max";
    case CombinationRule::kMaxPlusMin:
      return "max+lambda*min";
    case CombinationRule::kMarginal:
      break;
  }
  return "marginal";
}

Result<CombinationRule> parse_combination_rule(std::string_view name) {
  for (const CombinationRule rule : {CombinationRule::kSum, CombinationRule::kMax,
                                     CombinationRule::kMaxPlusMin, CombinationRule::kMarginal}) {
    if (to_string(rule) == name) return rule;
  }
  return invalid_argument("rule: expected sum, max, max+lambda*min or marginal, got {}", name);
}

MathType Hardware::effective_math(MathType math) const {
  if (peak_flops[static_cast<size_t>(math)] > 0) return math;
  // A narrower type runs on the next wider unit of the device.
  const bool has_fp8 = peak_flops[static_cast<size_t>(MathType::kFp8)] > 0;
  if (math == MathType::kFp4 && has_fp8) return MathType::kFp8;
  const bool has_bf16 = peak_flops[static_cast<size_t>(MathType::kBf16)] > 0;
  if (math != MathType::kF32 && has_bf16) return MathType::kBf16;
  if (math == MathType::kF32 && has_bf16) return MathType::kBf16;
  return MathType::kF32;
}

double Hardware::peak(MathType math) const {
  return peak_flops[static_cast<size_t>(effective_math(math))];
}

const PrefillAttentionModel& Hardware::prefill_model(const NumberFormat& kv) const {
  return kv.math == MathType::kFp8 ? prefill_attention_fp8 : prefill_attention;
}

const DecodeAttentionModel& Hardware::decode_model(const NumberFormat& kv) const {
  return kv.math == MathType::kFp8 ? decode_attention_fp8 : decode_attention;
}

GemmModel Hardware::gemm_model(const NumberFormat& weights) const {
  return model_of(gemm, weights, *this);
}

ExpertsModel Hardware::experts_model(const NumberFormat& weights) const {
  return model_of(experts, weights, *this);
}

Status Hardware::validate() const {
  if (peak(MathType::kBf16) <= 0) {
    return invalid_argument("{}: peak_tflops: expected a peak for f32 or bf16", name);
  }
  if (memory_bytes_per_s <= 0) {
    return invalid_argument("{}: memory_gb_per_s: expected a number above 0", name);
  }
  if (memory_bytes <= 0) {
    return invalid_argument("{}: memory_gb: expected a number above 0", name);
  }
  for (const auto& [kind, model] : gemm) {
    for (size_t i = 0; i < model.shares.size(); ++i) {
      const bool ascending = i == 0 || model.shares[i].rows > model.shares[i - 1].rows;
      if (!ascending || model.shares[i].rows <= 0 || model.shares[i].share <= 0 ||
          model.shares[i].share > 1) {
        return invalid_argument("{}: shares: expected ascending rows with shares in (0, 1]", name);
      }
    }
  }
  return {};
}

std::vector<std::string> known_hardware() {
  std::vector<std::string> names;
  for (const auto& [file_name, bytes] : hardware_blobs()) names.push_back(stem(file_name));
  std::sort(names.begin(), names.end());
  return names;
}

Result<Hardware> find_hardware(std::string_view name) {
  for (const auto& [file_name, bytes] : hardware_blobs()) {
    if (normalised(stem(file_name)) != normalised(name)) continue;
    return parse_hardware({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file_name);
  }
  return not_found("hardware: expected the path of a JSON file or one of {}, got {}{}",
                   joined(known_hardware()), name, did_you_mean(name, known_hardware()));
}

}  // namespace quire
