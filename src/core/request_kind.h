// What is wanted of a request.
#pragma once

#include <cstdint>

namespace quire {

enum class RequestKind : uint8_t {
  kGenerate,
  kPool,  // what its prompt comes to: all of it is computed, and nothing is sampled
};

}  // namespace quire
