#include "media/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace quire {
namespace {

double filter_width(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kBilinear:
      return 1.0;
    case ResizeFilter::kBicubic:
      return 2.0;
    case ResizeFilter::kLanczos:
      return 3.0;
  }
  return 1.0;
}

double sinc(double x) {
  if (x == 0.0) return 1.0;
  return std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double filter_value(ResizeFilter filter, double x) {
  x = std::abs(x);
  if (x >= filter_width(filter)) return 0.0;
  switch (filter) {
    case ResizeFilter::kBilinear:
      return 1.0 - x;
    case ResizeFilter::kBicubic: {
      constexpr double kA = -0.5;
      if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
      return (((x - 5.0) * x + 8.0) * x - 4.0) * kA;
    }
    case ResizeFilter::kLanczos:
      return sinc(x) * sinc(x / 3.0);
  }
  return 0.0;
}

// Sums are integers, as in Pillow, so that halves, which even ratios often give, are rounded alike.
// The weights of a filter sum to 1, and their magnitudes to less than 2, so that no sum exceeds
// 2^31.
constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

// Taps are the weights of one output sample: those of the inputs from `first` on, times
// 2^kFractionBits.
struct Taps {
  int32_t first = 0;
  std::vector<int32_t> weights;
};

int32_t to_fixed(double weight) {
  const double scaled = weight * (1 << kFractionBits);
  return static_cast<int32_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
}

std::vector<Taps> make_taps(int32_t in, int32_t out, ResizeFilter filter) {
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = filter_width(filter) * stretch;
  std::vector<Taps> all(static_cast<size_t>(out));
  for (int32_t i = 0; i < out; ++i) {
    const double center = (i + 0.5) * scale;
    Taps& taps = all[static_cast<size_t>(i)];
    // Values below zero round towards it: they are outside of the picture either way.
    const double first = center - support + 0.5;
    const double last = center + support + 0.5;
    taps.first = std::max(0, static_cast<int32_t>(first));
    const int32_t end = std::min(in, static_cast<int32_t>(last));
    std::vector<double> weights;
    double sum = 0.0;
    for (int32_t x = taps.first; x < end; ++x) {
      weights.push_back(filter_value(filter, (x - center + 0.5) / stretch));
      sum += weights.back();
    }
    for (const double weight : weights) taps.weights.push_back(to_fixed(weight / sum));
  }
  return all;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

Image resize_rows(const Image& in, int32_t width, ResizeFilter filter) {
  Image out{.width = width, .height = in.height, .rgb = {}};
  out.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(in.height) * 3);
  const std::vector<Taps> all = make_taps(in.width, width, filter);
  for (int32_t y = 0; y < in.height; ++y) {
    for (int32_t x = 0; x < width; ++x) {
      const Taps& taps = all[static_cast<size_t>(x)];
      int32_t sum[3] = {kHalf, kHalf, kHalf};
      const uint8_t* from = in.pixel(taps.first, y);
      for (const int32_t weight : taps.weights) {
        for (int c = 0; c < 3; ++c) sum[c] += weight * int32_t{*from++};
      }
      for (int c = 0; c < 3; ++c) out.pixel(x, y)[c] = to_byte(sum[c]);
    }
  }
  return out;
}

Image resize_columns(const Image& in, int32_t height, ResizeFilter filter) {
  Image out{.width = in.width, .height = height, .rgb = {}};
  const size_t row_size = static_cast<size_t>(in.width) * 3;
  out.rgb.resize(row_size * static_cast<size_t>(height));
  const std::vector<Taps> all = make_taps(in.height, height, filter);
  std::vector<int32_t> sums(row_size);
  for (int32_t y = 0; y < height; ++y) {
    const Taps& taps = all[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (size_t t = 0; t < taps.weights.size(); ++t) {
      const uint8_t* from = in.pixel(0, taps.first + static_cast<int32_t>(t));
      for (size_t i = 0; i < row_size; ++i) sums[i] += taps.weights[t] * int32_t{from[i]};
    }
    uint8_t* to = out.pixel(0, y);
    for (size_t i = 0; i < row_size; ++i) to[i] = to_byte(sums[i]);
  }
  return out;
}

}  // namespace

Image resize(const Image& image, int32_t width, int32_t height, ResizeFilter filter) {
  if (width == image.width && height == image.height) return image;
  if (width == image.width) return resize_columns(image, height, filter);
  if (height == image.height) return resize_rows(image, width, filter);
  // The order of the passes changes the rounding. Pillow 13 begins with the rows, unless the height
  // shrinks by more than twice as much as the width.
  if (height < image.height && image.height - height > 2 * (image.width - width))
    return resize_rows(resize_columns(image, height, filter), width, filter);
  return resize_columns(resize_rows(image, width, filter), height, filter);
}

}  // namespace quire
