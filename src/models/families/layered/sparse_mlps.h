// What configurations say of MLPs of which the greatest inputs alone go on (Gemma 3n).
#pragma once

namespace quire {

class ConfigReader;
struct ModelConfig;

// activation_sparsity_pattern, by default 0.95 in the first ten layers of more: per layer the share
// of an MLP's inside that is left out, as if it were normally distributed.
void read_sparse_mlps(const ConfigReader& reader, ModelConfig& config);

}  // namespace quire
