// What a request is for.
#pragma once

#include <cstdint>

namespace quire {

enum class RequestKind : uint8_t {
  kGenerate,
  kPool,  // pooling: the whole prompt is computed and nothing is sampled
  // One beam of a search. The sampled token is ignored: a step returns the likeliest next tokens as
  // logprobs, and the search then says with which text the beam goes on.
  kBeam,
};

inline constexpr uint8_t kNumRequestKinds = 3;

constexpr bool samples(RequestKind kind) { return kind != RequestKind::kPool; }

}  // namespace quire
