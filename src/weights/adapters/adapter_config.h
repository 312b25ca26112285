// What adapter_config.json of a PEFT adapter says about its low-rank updates.
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
  // kInvalidArgument: the text is no configuration of LoRA, or a field has another type or is out of
  // bounds. kUnimplemented: a field asks for what would change the result and is not supported, or
  // is unknown and holds something.
  static Result<AdapterConfig> parse(std::string_view text);

  // Returns the rank of a module, by its name in the base model.
  int64_t rank_of(std::string_view module) const;
  // What its B A x is multiplied by.
  float scale_of(std::string_view module) const;
  // Returns the greatest rank that any module may have.
  int64_t max_rank() const;
  // Returns, for a module, the names of its parameters that the adapter says it changes by
  // themselves, with the module's name before: "model.layers.0.mlp.experts.down_proj". Mostly there
  // are none.
  std::vector<std::string> parameters_of(std::string_view module) const;
  bool has_bias() const { return has_bias_; }
  // DoRA (Liu et al., 2024): each output of an updated linear has a magnitude of its own.
  bool has_magnitudes() const { return has_magnitudes_; }
  bool is_rank_stabilized() const { return is_rank_stabilized_; }
  // Whether a head that shares its weights with the embeddings goes on sharing them.
  bool ties_weights() const { return ties_weights_; }
  // Major and minor version of PEFT, each below 1000, as major * 1000 + minor; 0: not said.
  int32_t peft_version() const { return peft_version_; }
  const std::string& base_model() const { return base_model_; }  // as trained on; may be empty

 private:
  class Parser;
  struct Override {
    NamePattern pattern;
    double value;
  };

  int64_t rank_ = 8;
  double alpha_ = 8;
  std::vector<Override> ranks_;  // the first that matches counts
  std::vector<Override> alphas_;
  bool is_rank_stabilized_ = false;
  bool has_bias_ = false;
  bool has_magnitudes_ = false;
  bool ties_weights_ = false;
  int32_t peft_version_ = 0;
  std::vector<std::string> parameters_;  // ends of their names
  std::string base_model_;
};

}  // namespace quire
