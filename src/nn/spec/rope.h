// Rotary position embedding: this file has the frequencies of every scaling rule, and the cos/sin
// tables of a step.
//
// Law L4: what a position is rotated by depends on the position and on how the model is served,
// never on the batch or on how a prompt was cut (docs/decisions/003-rope-length-rules.md).
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
  kProportional,  // a share of a head's pairs rotates, by the frequencies of the whole head
};

// As the configuration states it (names of Hugging Face). Fields apply to the types named beside
// them.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;            // of the head; of its pairs: kProportional
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
      {};  // any type: divisors stored in a checkpoint (GGUF rope_freqs)
  // Says how many pairs turn by a token's time, row and column (MRoPE, Qwen2-VL). When it is empty,
  // all turn by the token's place in the sequence. Sections lie one after the other, or take turns
  // while they last: rows and columns take every third pair from 1 and 2 on, time the rest.
  std::vector<int64_t> sections = {};
  bool sections_in_turn = false;
  bool backwards = false;  // pairs turn the other way (nanochat); of types that do not grow
};

// Dynamic NTK scaling: from position max_position on, the base grows with the position.
struct DynamicNtk {
  double theta = 10000.0;
  double factor = 1.0;
  int64_t max_position = 0;
  int32_t dim = 0;  // the rotary dimension that exponents are shares of
};

struct RopeSpec {
  int32_t rotary_dim = 0;        // even
  std::vector<double> inv_freq;  // [rotary_dim / 2]
  double scale = 1.0;            // on cos and sin
  std::optional<DynamicNtk> dynamic;
  // [rotary_dim / 2]: by which of a token's three positions (time, row, column) a pair turns. Those of
  // text are equal. Empty: its place in the sequence is all that it has.
  std::vector<uint8_t> pair_axes = {};
};

// Makes the frequencies. `rotary_dim` is positive; an odd one, as a share of a head may come out
// (Phi-3), rotates one dimension more, with the frequencies of its own size; YaRN and LongRoPE have
// no such case. `max_model_len` is the longest sequence that is served, by which LongRoPE chooses
// its factors. kInvalidArgument names the field that does not fit.
Result<RopeSpec> make_rope(const RopeConfig& config, int32_t rotary_dim, int64_t max_model_len);

// Returns what YaRN multiplies cos and sin by. Latent attention multiplies its scores by the square
// of it.
double yarn_mscale(double factor, double mscale);

// Queries at position p are multiplied by 1 + beta * ln(1 + floor((p + first) / span)), so that
// attention stays sharp over long contexts (Llama 4 counts from 1, Ministral 3 from 0).
struct QueryScale {
  double beta = 0.1;
  int64_t span = 8192;
  int64_t first = 0;
};
// Says where the tokens of a step stand.
struct TokenPositions {
  const int32_t* sequence = nullptr;  // [num_tokens]
  // [num_tokens, 3], for RopeSpec::pair_axes; null: all three are `sequence`, as in text.
  const int32_t* axes = nullptr;
};

// Fills cos and sin, [num_tokens, rotary_dim / 2] each. `scratch` has room for rotary_dim / 2
// doubles, which dynamic scaling uses.
void rope_tables(Stream& stream, const RopeSpec& rope, const TokenPositions& positions,
                 int64_t num_tokens, float* cos, float* sin, double* scratch);

}  // namespace quire
