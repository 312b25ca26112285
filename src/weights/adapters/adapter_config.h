// AdapterConfig holds what adapter_config.json of a PEFT adapter says about its low-rank updates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/names/name_pattern.h"

namespace quire {

// It is immutable, and any thread may read it.
class AdapterConfig {
 public:
  // Returns kInvalidArgument if the text is no configuration of LoRA, or if a field has a wrong
  // type or is out of bounds; kUnimplemented if a field asks for something that would change the
  // result and that Quire does not support, or if an unknown field has a value.
  static Result<AdapterConfig> parse(std::string_view text);

  // Returns the rank of a module, by its name in the base model.
  int64_t rank_of(std::string_view module) const;
  // Returns the factor that the module's B A x is multiplied by.
  float scale_of(std::string_view module) const;
  // Returns the greatest rank that any module may have.
  int64_t max_rank() const;
  // Returns the full names of those parameters of a module that the adapter updates directly, such
  // as "model.layers.0.mlp.experts.down_proj". Most modules have none.
  std::vector<std::string> parameters_of(std::string_view module) const;
  bool has_bias() const { return has_bias_; }
  // Returns whether the adapter uses DoRA (Liu et al., 2024), where each output of an updated
  // linear has a magnitude of its own.
  bool has_magnitudes() const { return has_magnitudes_; }
  bool is_rank_stabilized() const { return is_rank_stabilized_; }
  // Returns whether an output head that shares its weights with the embeddings keeps sharing them.
  bool ties_weights() const { return ties_weights_; }
  // Returns the version of PEFT as major * 1000 + minor, each below 1000; 0 if the file names none.
  int32_t peft_version() const { return peft_version_; }
  // that it was trained on; may be empty
  const std::string& base_model() const { return base_model_; }

 private:
  class Parser;
  struct Override {
    NamePattern pattern;
    double value;
  };

  int64_t rank_ = 8;
  double alpha_ = 8;
  std::vector<Override> ranks_;  // the first match counts
  std::vector<Override> alphas_;
  bool is_rank_stabilized_ = false;
  bool has_bias_ = false;
  bool has_magnitudes_ = false;
  bool ties_weights_ = false;
  int32_t peft_version_ = 0;
  std::vector<std::string> parameters_;  // suffixes of their names
  std::string base_model_;
};

}  // namespace quire
