#include "media/audio/log_mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "media/audio/fourier.h"

namespace quire {
namespace {

constexpr int32_t kWindow = 400;  // samples of a frame; frames overlap
constexpr int32_t kFrequencies = kWindow / 2 + 1;
constexpr double kLogFloor = 1e-10;

// Slaney's scale: linear to 1 kHz, then logarithmic.
constexpr double kHzPerMel = 200.0 / 3.0, kCornerHz = 1000.0, kCornerMel = kCornerHz / kHzPerMel;
const double kLogStep = std::log(6.4) / 27.0;

double to_mel(double hz) {
  return hz < kCornerHz ? hz / kHzPerMel : kCornerMel + std::log(hz / kCornerHz) / kLogStep;
}
double to_hz(double mel) {
  return mel < kCornerMel ? mel * kHzPerMel : kCornerHz * std::exp((mel - kCornerMel) * kLogStep);
}

// Returns samples[index], mirrored at the beginning, and 0 behind the end.
float reflected(std::span<const float> samples, int64_t index) {
  const auto at = static_cast<size_t>(index < 0 ? -index : index);
  return at < samples.size() ? samples[at] : 0.0f;
}

}  // namespace

LogMel::LogMel(int32_t num_bands) : num_bands_(num_bands) {
  for (int32_t i = 0; i < kWindow; ++i)
    window_.push_back(0.5 - 0.5 * std::cos(2.0 * std::numbers::pi * i / kWindow));
  const double max_mel = to_mel(kSpeechSampleRate / 2.0);
  const auto edge = [&](int32_t i) { return to_hz(max_mel * i / (num_bands + 1)); };
  constexpr double kStepHz = static_cast<double>(kSpeechSampleRate) / kWindow;
  for (int32_t band = 0; band < num_bands; ++band) {
    const double low = edge(band), middle = edge(band + 1), high = edge(band + 2);
    Filter filter;
    for (int32_t i = 0; i < kFrequencies; ++i) {
      const double hz = i * kStepHz;
      const double weight = std::min((hz - low) / (middle - low), (high - hz) / (high - middle));
      if (weight <= 0.0) continue;
      if (filter.weights.empty()) filter.first = i;
      filter.weights.push_back(weight * 2.0 / (high - low));
    }
    filters_.push_back(std::move(filter));
  }
}

double LogMel::write_frame(std::span<const double> power, int32_t frame, int32_t num_frames,
                           float* out) const {
  double loudest = std::log10(kLogFloor);
  for (size_t band = 0; band < filters_.size(); ++band) {
    const Filter& filter = filters_[band];
    double sum = 0.0;
    for (size_t i = 0; i < filter.weights.size(); ++i)
      sum += filter.weights[i] * power[static_cast<size_t>(filter.first) + i];
    const double value = std::log10(std::max(sum, kLogFloor));
    loudest = std::max(loudest, value);
    out[static_cast<int64_t>(band) * num_frames + frame] = static_cast<float>(value);
  }
  return loudest;
}

Bands LogMel::compute(std::span<const float> samples) const {
  // A frame reads half a window of samples behind its position.
  const int64_t heard = std::ssize(samples) + kWindow / 2 + kSamplesPerFrame - 1;
  Bands bands{.num_frames = static_cast<int32_t>(heard / kSamplesPerFrame)};
  bands.values.resize(static_cast<size_t>(num_bands_) * static_cast<size_t>(bands.num_frames));
  std::vector<std::complex<double>> frame(kWindow);
  std::vector<double> power(kFrequencies);
  Fourier fourier(kWindow);
  double loudest = std::log10(kLogFloor);
  for (int32_t t = 0; t < bands.num_frames; ++t) {
    const int64_t first = int64_t{t} * kSamplesPerFrame - kWindow / 2;
    for (int32_t i = 0; i < kWindow; ++i) {
      const auto at = static_cast<size_t>(i);
      frame[at] = reflected(samples, first + i) * window_[at];
    }
    const std::span<const std::complex<double>> spectrum = fourier.transform(frame);
    for (size_t i = 0; i < power.size(); ++i) power[i] = std::norm(spectrum[i]);
    loudest = std::max(loudest, write_frame(power, t, bands.num_frames, bands.values.data()));
  }
  const auto floor = static_cast<float>(loudest - 8.0);
  const auto scaled = [floor](float value) { return (std::max(value, floor) + 4.0f) / 4.0f; };
  std::ranges::transform(bands.values, bands.values.begin(), scaled);
  bands.silence = scaled(static_cast<float>(std::log10(kLogFloor)));
  return bands;
}

}  // namespace quire
