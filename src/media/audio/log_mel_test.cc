#include "media/audio/log_mel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>
#include <random>

#include "base/base64.h"
#include "media/audio/decode_audio.h"
#include "media/audio/fourier.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

const std::filesystem::path& golden_dir() {
  static const std::filesystem::path dir =
      test::source_dir() / "tests" / "goldens" / "speech" / "whisper";
  return dir;
}

Recording golden_recording() {
  const std::string file = test::read_file(golden_dir() / "recording.wav");
  auto recording = decode_audio(std::as_bytes(std::span(file)), {}, kSpeechSampleRate);
  QUIRE_CHECK(recording.ok(), "{}", recording.status().message());
  return std::move(*recording);
}

// Computes the sums by definition.
TEST(Fourier, IsThatOfTheDefinition) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const size_t size : {1u, 2u, 3u, 7u, 30u, 64u, 75u, 400u}) {
    std::vector<std::complex<double>> in(size);
    for (auto& value : in) value = {normal(random), normal(random)};
    Fourier fourier(size);
    const auto out = fourier.transform(in);
    for (size_t k = 0; k < size; ++k) {
      std::complex<double> sum = 0.0;
      for (size_t i = 0; i < size; ++i) {
        const double turn = static_cast<double>(i * k % size) / static_cast<double>(size);
        sum += in[i] * std::polar(1.0, -2.0 * std::numbers::pi * turn);
      }
      EXPECT_NEAR(std::abs(out[k] - sum), 0.0, 1e-10 * static_cast<double>(size))
          << size << " " << k;
    }
  }
}

TEST(LogMel, IsThatOfTransformers) {
  const boost::json::value golden =
      boost::json::parse(test::read_file(golden_dir() / "golden.json"));
  const Recording recording = golden_recording();
  for (const boost::json::value& one : golden.at("mel").as_array()) {
    const auto num_bands = one.at("bands").to_number<int32_t>();
    const Bands bands = LogMel(num_bands).compute(recording.samples);
    const std::string bytes = *base64_decode(std::string(one.at("values_f32_base64").as_string()));
    const float* expected = reinterpret_cast<const float*>(bytes.data());
    double worst = 0.0;
    for (const boost::json::value& at : one.at("frames").as_array()) {
      const auto frame = at.to_number<int32_t>();
      for (int32_t band = 0; band < num_bands; ++band) {
        const float value =
            frame >= bands.num_frames
                ? bands.silence
                : bands.values[static_cast<size_t>(band * bands.num_frames + frame)];
        worst = std::max(worst, std::fabs(double{value} - *expected++));
      }
    }
    EXPECT_LE(worst, 1e-4) << num_bands << " bands";
    fmt::print("{} bands: worst difference {:.2e}\n", num_bands, worst);
  }
}

// Frames behind the last one that contains samples would be silent.
TEST(LogMel, SilenceFollows) {
  std::vector<float> samples(1234, 0.0f);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = std::sin(0.3f * static_cast<float>(i));
  const LogMel mel(20);
  const Bands alone = mel.compute(samples);
  samples.resize(5000, 0.0f);
  const Bands longer = mel.compute(samples);
  ASSERT_GT(longer.num_frames, alone.num_frames);
  EXPECT_EQ(alone.silence, longer.silence);
  for (int32_t band = 0; band < 20; ++band) {
    for (int32_t frame = 0; frame < longer.num_frames; ++frame) {
      const float expected =
          frame < alone.num_frames
              ? alone.values[static_cast<size_t>(band * alone.num_frames + frame)]
              : alone.silence;
      EXPECT_EQ(longer.values[static_cast<size_t>(band * longer.num_frames + frame)], expected);
    }
  }
}

TEST(LogMel, NoSoundIsSilence) {
  const Bands bands = LogMel(8).compute(std::vector<float>(16000, 0.0f));
  for (const float value : bands.values) EXPECT_EQ(value, bands.silence);
  EXPECT_EQ(bands.silence, -1.5f);
}

}  // namespace
}  // namespace quire
