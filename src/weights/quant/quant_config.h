// A QuantConfig is what a checkpoint says about its quantization: quantization_config of
// config.json, or the quantize_config.json of older tools. The tensors of a module tell whether it
// is quantized; the QuantConfig says what the numbers in those tensors mean.
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

// QuantActivations says which activations the quantized layers of a checkpoint were made for:
// floats, or codes with scales that are computed per input or fixed.
enum class QuantActivations : uint8_t { kFloat, kDynamic, kStatic };

// A QuantScheme says how the codes of one module turn into weights.
struct QuantScheme {
  int bits = 0;
  bool is_float = false;  // e4m3 (8 bits) or e2m1 (4 bits) instead of integers
  bool symmetric = true;
  // The number of inputs that share a scale; -1 means a whole row. Empty if only the tensors say
  // it.
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

  // Parses the JSON of a quantization_config; messages begin with `where`. Returns kUnimplemented,
  // with the name, for a method or format that Quire does not read, and kInvalidArgument for a
  // field that does not fit.
  static Result<QuantConfig> parse(std::string_view json, std::string_view where);

  QuantMethod method() const { return method_; }
  std::string description() const;  // "compressed-tensors, int4 in groups of 128"

  // Returns the scheme of a module whose tensors say that it is quantized
  // ("model.layers.0.mlp.up_proj"), or nullptr if the configuration has no scheme for it. The
  // scheme is valid as long as the config.
  const QuantScheme* scheme(std::string_view module) const;

 private:
  struct Rule {
    NamePattern pattern;
    QuantScheme scheme;
  };
  class Parser;

  QuantMethod method_ = QuantMethod::kNone;
  std::optional<QuantScheme> all_linear_;  // for modules that no rule names
  std::vector<Rule> rules_;                // the first match counts
};

}  // namespace quire
