// What is wanted of a request.
#pragma once

#include <cstdint>

namespace quire {

enum class RequestKind : uint8_t {
  kGenerate,
  kPool,  // what its prompt comes to: all of it is computed, and nothing is sampled
  // One beam of a search: what is sampled does not count. A step brings the likeliest next tokens as
  // logprobs, and whoever made the request says afterwards which text it goes on with.
  kBeam,
};

inline constexpr uint8_t kNumRequestKinds = 3;

constexpr bool samples(RequestKind kind) { return kind != RequestKind::kPool; }

}  // namespace quire
