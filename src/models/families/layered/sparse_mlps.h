// The configuration keys of MLPs that keep only their greatest intermediate values (Gemma 3n).
#pragma once

namespace quire {

class ConfigReader;
struct ModelConfig;

// Reads activation_sparsity_pattern: for each layer the share of an MLP's intermediate values that
// is cut, as if they were normally distributed. The default is 0.95 in the first ten layers, if
// there are more.
void read_sparse_mlps(const ConfigReader& reader, ModelConfig& config);

}  // namespace quire
