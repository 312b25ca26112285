// The discrete Fourier transform of a size whose prime factors are small (Cooley and Tukey, 1965).
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace quire {

// One thread at a time may use it.
class Fourier {
 public:
  explicit Fourier(size_t size);

  // in [size]; the result is valid until the next call.
  std::span<const std::complex<double>> transform(std::span<const std::complex<double>> in);

 private:
  // out [size] = transform of in[0], in[stride], …
  void step(const std::complex<double>* in, size_t stride, size_t size, std::complex<double>* out);

  std::vector<std::complex<double>> roots_;  // e^(-2 pi i k / size)
  std::vector<std::complex<double>> out_, column_;
};

}  // namespace quire
