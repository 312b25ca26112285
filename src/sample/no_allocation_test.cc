// A sampler that has reserved its rows allocates nothing in a step (law L3). Counts every operator
// new of this test program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "core/transcript_rules.h"
#include "sample/sampler.h"

namespace {
std::atomic<int64_t> num_allocations{0};
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace quire {
namespace {

// Even the first request of a kind finds its row reserved.
TEST(Sampler, AllocatesNothingOnceReserved) {
  const std::vector<float> logits(1000, 0.5f);
  const std::vector<uint32_t> mask(1000 / 32 + 1, ~0u);
  SamplingParams masked;
  masked.temperature = 1.0f;
  masked.seed = 1;
  SamplingParams biased = masked;
  biased.logit_bias = {{3, 1.0f}};
  SamplingParams transcript = masked;
  transcript.transcript_rules =
      std::make_shared<const TranscriptRules>(TranscriptRules{.suppressed = {1, 2}});
  for (const SamplingParams* const params : {&masked, &biased, &transcript}) {
    Sampler sampler;
    sampler.reserve(logits.size());
    const SamplerState state;
    const int64_t before = num_allocations.load();
    const bool is_ok = sampler
                           .sample({.logits = logits,
                                    .params = *params,
                                    .state = state,
                                    .token_mask = params == &masked ? std::span(mask)
                                                                    : std::span<const uint32_t>()})
                           .ok();
    EXPECT_EQ(num_allocations.load(), before);
    EXPECT_TRUE(is_ok);
  }
}

}  // namespace
}  // namespace quire
