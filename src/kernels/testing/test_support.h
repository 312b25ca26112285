// The code that kernel tests share: random and poisoned buffers, the instruction sets to run on,
// and comparisons.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "device/isa.h"
#include "device/stream.h"
#include "kernels/ref/ref.h"

namespace quire::kernel_test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr double kEpsilon = 0x1p-24;  // half an ulp of 1 in float

inline std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2Core, Isa::kAvx2, Isa::kAvx512Core,
                        Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAmx, Isa::kAmxEmulated}) {
    if (has_isa(isa)) all.push_back(isa);
  }
  return all;
}

// A stream with its own team.
struct Host {
  explicit Host(Isa isa, int threads = 2)
      : team(ThreadTeam::create({.num_threads = threads, .pin = false}).value()),
        stream(team, isa) {}
  Host(Isa isa, const ThreadTeamOptions& options)
      : team(ThreadTeam::create(options).value()), stream(team, isa) {}
  Host(Host&&) = delete;  // the stream borrows the team
  ThreadTeam team;
  HostStream stream;
};

// Returns floats that are uniform in (-scale, scale), a pure function of seed and index.
inline std::vector<float> random_floats(uint64_t seed, int64_t n, float scale = 1.0f) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i += 4) {
    const auto words = philox4x32(seed, {static_cast<uint32_t>(i), 0, 0, 0});
    for (int64_t j = i; j < std::min(n, i + 4); ++j) {
      x[j] = scale * (static_cast<float>(words[j - i]) * 0x1p-31f - 1.0f);
    }
  }
  return x;
}

inline std::vector<float> poisoned(int64_t n) {
  return std::vector<float>(static_cast<size_t>(n), kNaN);
}

// Memory of any element type, 64-byte aligned. Every byte is 0xff (NaN in every float type) until
// it is written.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(static_cast<size_t>(bytes) + 64, 0xff) {}
  void* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - address % 64) % 64;
  }

 private:
  std::vector<uint8_t> bytes_;
};

// Returns the elements of `x`, rounded to `dtype`.
inline Buffer stored(DType dtype, const std::vector<float>& x) {
  Buffer buffer(static_cast<int64_t>(x.size()) * size_bytes(dtype));
  for (size_t i = 0; i < x.size(); ++i)
    ref::store_element(buffer.data(), dtype, static_cast<int64_t>(i), x[i]);
  return buffer;
}

// Compares bit by bit, so that NaN equals NaN and 0 differs from -0. The message names the first
// difference.
inline ::testing::AssertionResult same_bits(const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Returns whether |got - want| <= tolerance everywhere. The message names the worst element.
inline ::testing::AssertionResult close(const float* got, const float* want, int64_t n,
                                        double tolerance) {
  int64_t worst = -1;
  double worst_error = tolerance;
  for (int64_t i = 0; i < n; ++i) {
    const double error = std::abs(double{got[i]} - want[i]);
    if (!(error <= worst_error)) {
      worst = i;
      worst_error = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    }
  }
  if (worst < 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "element " << worst << " of " << n << ": got " << got[worst] << ", want " << want[worst]
         << ", tolerance " << tolerance;
}

}  // namespace quire::kernel_test
