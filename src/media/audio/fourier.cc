#include "media/audio/fourier.h"

#include <numbers>

#include "base/check.h"

namespace quire {
namespace {

size_t least_factor(size_t size) {
  for (size_t factor = 2; factor * factor <= size; ++factor) {
    if (size % factor == 0) return factor;
  }
  return size;
}

}  // namespace

Fourier::Fourier(size_t size) : out_(size), column_(size) {
  for (size_t k = 0; k < size; ++k) {
    const double angle =
        -2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(size);
    roots_.emplace_back(std::polar(1.0, angle));
  }
}

std::span<const std::complex<double>> Fourier::transform(std::span<const std::complex<double>> in) {
  QUIRE_CHECK(in.size() == out_.size(), "{} values for a transform of {}", in.size(), out_.size());
  step(in.data(), 1, in.size(), out_.data());
  return out_;
}

// Transforms the `radix` interleaved parts, and then combines them column by column.
void Fourier::step(const std::complex<double>* in, size_t stride, size_t size,
                   std::complex<double>* out) {
  if (size == 1) {
    *out = *in;
    return;
  }
  const size_t radix = least_factor(size), part = size / radix, whole = roots_.size();
  for (size_t r = 0; r < radix; ++r) step(in + r * stride, stride * radix, part, out + r * part);
  for (size_t k = 0; k < part; ++k) {
    for (size_t r = 0; r < radix; ++r) column_[r] = out[r * part + k];
    for (size_t q = 0; q < radix; ++q) {
      const size_t at = k + q * part, turn = at * stride % whole;
      std::complex<double> sum = column_[0];
      for (size_t r = 1, root = turn; r < radix; ++r) {
        sum += column_[r] * roots_[root];
        root += turn;
        if (root >= whole) root -= whole;
      }
      out[at] = sum;
    }
  }
}

}  // namespace quire
