#include "sample/gumbel_argmax.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "kernels/cpu/sampling/vector_math.h"

namespace quire {
namespace {

// Returns standard Gumbel noise from 32 random bits. It is computed in double, because the 24 bits
// of a float would cut off the upper tail, in which unlikely tokens win.
double gumbel(uint32_t bits) {
  return -std::log(-std::log((static_cast<double>(bits) + 0.5) * 0x1p-32));
}

// The best token so far. Few tokens ever lead, and logarithms are computed only for those that
// might.
class Leader {
 public:
  explicit Leader(const GumbelDraw& draw) : draw_(draw) {}

  // Compares the tokens of one chunk with the leader.
  void try_chunk(size_t chunk) {
    constexpr uint32_t kBlocksPerChunk = kRowChunk / 4;
    const std::span<const float> values = draw_.row.chunk(chunk);
    philox4x32_x16(draw_.seed,
                   {static_cast<uint32_t>(draw_.position), 0,
                    static_cast<uint32_t>(chunk) * kBlocksPerChunk, 0},
                   words_);
    for (size_t i = 0; i < values.size(); ++i) {
      const float scaled = draw_.scale.of(values[i]);
      if (!(scaled >= draw_.threshold) || !may_lead(scaled, words_[i])) continue;
      const double score = static_cast<double>(scaled) + gumbel(words_[i]);
      const auto token = static_cast<TokenId>(chunk * kRowChunk + i);
      if (score < best_ || (score == best_ && token > token_)) continue;
      best_ = score;
      token_ = token;
    }
  }
  float best() const { return static_cast<float>(best_); }
  TokenId token() const { return token_; }

 private:
  // To lead, a token needs -log(u) <= e^(scaled - best), and -log(u) >= 1 - u; there is a margin
  // for rounding.
  bool may_lead(float scaled, uint32_t word) const {
    if (token_ < 0) return true;
    const float lead = scaled - best();
    const float reach = exp_nonpositive(lead < 0 ? lead : 0.0f) * 1.0001f;
    return static_cast<float>(~word) * 0x1p-32f <= reach;
  }

  const GumbelDraw& draw_;
  std::array<uint32_t, 64> words_{};
  double best_ = -std::numeric_limits<double>::infinity();
  TokenId token_ = std::numeric_limits<TokenId>::min();
};
static_assert(kRowChunk == 64, "a chunk takes the 16 Philox blocks of one call");

}  // namespace

TokenId gumbel_argmax(const RowKernels& kernels, const GumbelDraw& draw) {
  const std::span<const float> chunk_max = draw.row.chunk_max;
  Leader leader(draw);
  // Starts with the likeliest token's chunk: against a high leader, few other tokens need a closer
  // look.
  const size_t first =
      static_cast<size_t>(std::max_element(chunk_max.begin(), chunk_max.end()) - chunk_max.begin());
  leader.try_chunk(first);
  for (size_t begin = 0; begin < chunk_max.size(); begin += kChunkGroup) {
    const auto group =
        chunk_max.subspan(begin, std::min<size_t>(kChunkGroup, chunk_max.size() - begin));
    uint32_t found = kernels.leading_chunks({.seed = draw.seed,
                                             .position = static_cast<uint32_t>(draw.position),
                                             .first_chunk = static_cast<int64_t>(begin),
                                             .num_chunks = static_cast<int64_t>(group.size()),
                                             .chunk_max = group.data(),
                                             .scale = draw.scale,
                                             .low = draw.threshold,
                                             .best = leader.best()});
    for (size_t c = 0; found != 0; ++c, found >>= 1) {
      if ((found & 1u) != 0 && begin + c != first) leader.try_chunk(begin + c);
    }
  }
  return leader.token();
}

}  // namespace quire
