// A QuantConfig is what a checkpoint says about its quantization: quantization_config of
// config.json, or the quantize_config.json of older tools. Which modules are quantized at all is
// seen from their tensors; this says what the numbers in those tensors mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/names/name_pattern.h"

namespace quire {

enum class QuantMethod : uint8_t { kNone, kAwq, kGptq, kFp8, kCompressedTensors, kMxfp4, kBitNet };

// QuantActivations says what enters the products of a quantized layer, as the checkpoint was made
// for.
enum class QuantActivations : uint8_t { kFloat, kDynamic, kStatic };

// A QuantScheme says how the codes of one module turn into weights.
struct QuantScheme {
  int bits = 0;
  bool is_float = false;  // e4m3 (8 bits) or e2m1 (4 bits) instead of integers
  bool symmetric = true;
  // So many inputs share a scale, and with -1 a whole row does. It is empty when the tensors alone
  // say it.
  std::optional<int64_t> group_size = {};
  std::optional<int64_t> block_rows = {};  // outputs that share a scale, in block-wise schemes
  bool zeros_less_one = false;             // GPTQ's first format stores zero points minus one
  bool act_order = false;                  // groups follow g_idx, not the order of inputs
  bool scale_divides = false;              // BitNet: weights are codes divided by the scale
  QuantActivations activations = QuantActivations::kFloat;

  std::string description() const;  // "int4 in groups of 128"
};

// It is immutable once parsed; any thread may use it.
class QuantConfig {
 public:
  // Without a quantization_config there is no method.
  QuantConfig() = default;

  // `where` begins messages. kUnimplemented: a method or format that Quire does not read, by name.
  // kInvalidArgument: a field that does not fit.
  static Result<QuantConfig> parse(std::string_view json, std::string_view where);

  QuantMethod method() const { return method_; }
  std::string description() const;  // "compressed-tensors, int4 in groups of 128"

  // Returns the scheme of a module whose tensors say that it is quantized
  // ("model.layers.0.mlp.up_proj"); nullptr when the configuration has none for it. It is valid as
  // long as the config.
  const QuantScheme* scheme(std::string_view module) const;

 private:
  struct Rule {
    NamePattern pattern;
    QuantScheme scheme;
  };
  class Parser;

  QuantMethod method_ = QuantMethod::kNone;
  std::optional<QuantScheme> all_linear_;  // of modules that no rule names
  std::vector<Rule> rules_;                // the first that matches counts
};

}  // namespace quire
