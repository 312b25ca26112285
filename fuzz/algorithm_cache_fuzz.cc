// The input is a file of measured algorithms. It is read or refused, and what is read must stay the
// same when written and read again. The checksum at the end is corrected, so that what precedes it
// is read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/cuda/linear/library/algorithm_cache.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::cuda::AlgorithmCache;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  AlgorithmCache cache("fuzz");
  (void)cache.add_text(text);
  const std::string entries = "quire-algorithms 1\nfor fuzz\n" + std::string(text);
  if (!cache.add_text(AlgorithmCache::with_sum(entries)).ok()) return 0;
  const std::string written = cache.to_text();
  AlgorithmCache again("fuzz");
  if (!again.add_text(written).ok() || again.to_text() != written) std::abort();
  return 0;
}
