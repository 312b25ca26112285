// Rotary position embedding: the frequencies of every scaling rule, and the cos/sin tables of a
// step.
//
// Law L4: the rotation of a position depends on the position and on how the model is served, never
// on the batch or on how a prompt was cut (docs/decisions/003-rope-length-rules.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "device/stream.h"

namespace quire {

enum class RopeType : uint8_t {
  kDefault,
  kLinear,
  kDynamic,
  kYarn,
  kLlama3,
  kLongRope,
  // Only a share of a head's pairs is rotated, with the frequencies of the whole head.
  kProportional,
};

// The rope settings of a configuration, with Hugging Face's names. A comment beside a field names
// the types that use it, for the fields up to the next comment.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  // Share of the head that is rotated; of its pairs for kProportional.
  double partial_rotary_factor = 1.0;
  double factor = 1.0;                           // linear, dynamic, yarn, llama3, longrope
  int64_t max_position_embeddings = 0;           // dynamic
  int64_t original_max_position_embeddings = 0;  // yarn, llama3, longrope
  std::optional<double> attention_factor = {};   // yarn, longrope
  double beta_fast = 32.0;                       // yarn
  double beta_slow = 1.0;
  std::optional<double> mscale = {};
  std::optional<double> mscale_all_dim = {};
  bool truncate = true;
  double low_freq_factor = 1.0;  // llama3
  double high_freq_factor = 4.0;
  std::vector<double> short_factor = {};  // longrope, rotary_dim / 2 each
  std::vector<double> long_factor = {};
  std::vector<double> freq_factors =
      {};  // any type: divisors that a checkpoint stores (GGUF rope_freqs)
  // How many pairs are rotated by a token's time, row and column (MRoPE, Qwen2-VL); empty: all
  // pairs are rotated by the token's position in the sequence. The sections follow each other, or,
  // with sections_in_turn, are interleaved: rows and columns have every third pair from 1 and 2 on,
  // as many as the sections say, and time has the rest.
  std::vector<int64_t> sections = {};
  bool sections_in_turn = false;
  bool backwards = false;  // pairs are rotated the other way (nanochat); not with dynamic
};

// Dynamic NTK scaling: the base grows with the position from max_position on.
struct DynamicNtk {
  double theta = 10000.0;
  double factor = 1.0;
  int64_t max_position = 0;
  int32_t dim = 0;  // the rotary dimension that the exponents are fractions of
};

struct RopeSpec {
  int32_t rotary_dim = 0;        // even
  std::vector<double> inv_freq;  // [rotary_dim / 2]
  double scale = 1.0;            // factor on cos and sin
  std::optional<DynamicNtk> dynamic;
  // [rotary_dim / 2]: which of a token's three positions (time, row, column) rotates a pair; for
  // text all three are equal. Empty: the position in the sequence rotates all pairs.
  std::vector<uint8_t> pair_axes = {};
};

// Computes the frequencies. `rotary_dim` is positive. An odd one (Phi-3: a fraction of a head may
// be odd) rotates one dimension more, with the frequencies of the odd size; YaRN and LongRoPE have
// no such models. `max_model_len` is the longest sequence that is served, which decides on
// LongRoPE's factors. kInvalidArgument names the field that does not fit.
Result<RopeSpec> make_rope(const RopeConfig& config, int32_t rotary_dim, int64_t max_model_len);

// Returns YaRN's factor on cos and sin. Latent attention multiplies its scores by its square.
double yarn_mscale(double factor, double mscale);

// The query at position p is multiplied by 1 + beta * ln(1 + floor((p + first) / span)), so that
// attention stays sharp over long contexts (Llama 4 counts from 1, Ministral 3 from 0).
struct QueryScale {
  double beta = 0.1;
  int64_t span = 8192;
  int64_t first = 0;
};
// The positions of a step's tokens.
struct TokenPositions {
  const int32_t* sequence = nullptr;  // [num_tokens]
  // [num_tokens, 3], for RopeSpec::pair_axes; null: all three equal `sequence`, as in text.
  const int32_t* axes = nullptr;
};

// Computes cos and sin, [num_tokens, rotary_dim / 2] each. `scratch` has room for rotary_dim / 2
// doubles, which only dynamic scaling uses.
void rope_tables(Stream& stream, const RopeSpec& rope, const TokenPositions& positions,
                 int64_t num_tokens, float* cos, float* sin, double* scratch);

}  // namespace quire
