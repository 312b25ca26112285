// An AlgorithmCache keeps the algorithms of a GPU's library that were measured to be the fastest on
// disk between starts: nothing is measured twice on the same device with the same library.
//
//   AlgorithmCache cache("NVIDIA H200, sm_90, 132 SMs; cuBLASLt 130002");
//   cache.read(dir);  // takes what is there, fits and is undamaged
//   if (const MeasuredAlgorithm* known = cache.find(key)) …
//   cache.put(key, measured);
//   cache.write(dir);
//
// There is a file per identity; it is text, written whole or not at all, and safe to delete. WORDs
// are hexadecimal, and HASH is that of everything before its line:
//   quire-algorithms 1
//   for IDENTITY
//   N K ROWS X_STRIDE Y_STRIDE Y_TYPE FLAGS MICROSECONDS FUSES_BIAS WORD * 8
//   …
//   sum HASH
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "kernels/cuda/linear/library/matmul_key.h"

namespace quire::cuda {

struct MeasuredAlgorithm {
  std::array<uint64_t, 8> words{};  // the library's own, opaque
  bool fuses_bias = false;
  float microseconds = 0.0f;
  friend bool operator==(const MeasuredAlgorithm&, const MeasuredAlgorithm&) = default;
};

// One thread uses it.
class AlgorithmCache {
 public:
  // `identity` is one line that decides whether an algorithm may be used again and how fast it is:
  // device, library, their versions.
  explicit AlgorithmCache(std::string identity) : identity_(std::move(identity)) {}

  const MeasuredAlgorithm* find(const MatmulKey& key) const;
  void put(const MatmulKey& key, const MeasuredAlgorithm& algorithm);
  size_t size() const { return entries_.size(); }

  std::string to_text() const;
  // Returns `text` with the last line that belongs under it.
  static std::string with_sum(std::string text);
  // Adds what `text` holds. kDataLoss: it is damaged, or of another device or library; then nothing
  // is added.
  Status add_text(std::string_view text);

  // Reads the file in the folder `dir`, which write() makes. kNotFound: there is no file; else the
  // errors of add_text().
  Status read(const std::string& dir);
  Status write(const std::string& dir) const;

 private:
  std::string identity_;
  std::map<MatmulKey, MeasuredAlgorithm> entries_;
};

// Returns which of the measured times to take: the least, but the first (the library's own choice)
// unless another is faster by more than measurements waver. `microseconds` is not empty. A negative
// time is an algorithm that failed; when all failed the result is -1.
int64_t fastest(std::span<const float> microseconds);

}  // namespace quire::cuda
