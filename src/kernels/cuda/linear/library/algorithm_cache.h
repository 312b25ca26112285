// An AlgorithmCache stores on disk which algorithms of a GPU's library were measured to be the
// fastest, so that nothing is measured twice on the same device with the same library.
//
//   AlgorithmCache cache("NVIDIA H200, sm_90, 132 SMs; cuBLASLt 130002");
//   cache.read(dir);  // takes what is there, fits and is undamaged
//   if (const MeasuredAlgorithm* known = cache.find(key)) …
//   cache.put(key, measured);
//   cache.write(dir);
//
// There is one file per identity. It is text, written whole or not at all, and safe to delete.
// WORDs are hexadecimal, and HASH is the hash of everything before its line:
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
  std::array<uint64_t, 8> words{};  // opaque data of the library
  bool fuses_bias = false;
  float microseconds = 0.0f;
  friend bool operator==(const MeasuredAlgorithm&, const MeasuredAlgorithm&) = default;
};

// One thread may use it.
class AlgorithmCache {
 public:
  // `identity` is one line with everything that decides whether an algorithm can be used again and
  // how fast it is: the device, the library, and their versions.
  explicit AlgorithmCache(std::string identity) : identity_(std::move(identity)) {}

  const MeasuredAlgorithm* find(const MatmulKey& key) const;
  void put(const MatmulKey& key, const MeasuredAlgorithm& algorithm);
  size_t size() const { return entries_.size(); }

  std::string to_text() const;
  // Returns `text` with its last line, the hash, appended.
  static std::string with_sum(std::string text);
  // Adds what `text` holds. kDataLoss: it is damaged, or of another device or library; then nothing
  // is added.
  Status add_text(std::string_view text);

  // Reads the file in the folder `dir`, which write() makes. kNotFound: there is no file. Else
  // returns the errors of add_text().
  Status read(const std::string& dir);
  Status write(const std::string& dir) const;

 private:
  std::string identity_;
  std::map<MatmulKey, MeasuredAlgorithm> entries_;
};

// Returns the index of the measured time to use: the least, but the first (the library's own
// choice) unless another is faster by more than measurements vary. `microseconds` must not be
// empty. A negative time is that of an algorithm that failed; when all failed the result is -1.
int64_t fastest(std::span<const float> microseconds);

}  // namespace quire::cuda
