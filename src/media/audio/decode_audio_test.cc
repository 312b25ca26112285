#include "media/audio/decode_audio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "media/testing/test_audio.h"

namespace quire {
namespace {

constexpr int32_t kRate = 16000;
constexpr int kWav = SF_FORMAT_WAV | SF_FORMAT_PCM_16;

Result<Recording> decode(const std::string& file, const AudioLimits& limits = {}) {
  return decode_audio(std::as_bytes(std::span(file)), limits, kRate);
}

void expect_refused(const std::string& file, StatusCode code, const std::string& part,
                    const AudioLimits& limits = {}) {
  const auto recording = decode(file, limits);
  ASSERT_FALSE(recording.ok()) << part;
  EXPECT_EQ(recording.status().code(), code) << recording.status().message();
  EXPECT_NE(recording.status().message().find(part), std::string::npos)
      << recording.status().message();
  EXPECT_EQ(recording.status().message().find('\n'), std::string::npos);
}

TEST(DecodeAudio, ReservesWhatTheHeaderSays) {
  const std::string file = test::write_audio(test::tones(8000, 2, 0.5), kWav, 8000, 2);
  std::vector<int64_t> reserved;
  const auto reserve = [&](int64_t num_bytes) {
    reserved.push_back(num_bytes);
    return reserved.size() > 1 ? resource_exhausted("full") : Status();
  };
  const auto bytes = std::as_bytes(std::span(file));
  EXPECT_TRUE(decode_audio(bytes, {}, kRate, reserve).ok());
  EXPECT_EQ(decode_audio(bytes, {.max_seconds = 0.25}, kRate, reserve).status().message(), "full");
  EXPECT_EQ(reserved, (std::vector<int64_t>{8000 * 4, 4000 * 4}));
}

TEST(DecodeAudio, WavIsExact) {
  const std::vector<float> frames = test::tones(kRate, 1, 0.5);
  const auto recording = decode(test::write_audio(frames, kWav, kRate, 1));
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  ASSERT_EQ(recording->samples.size(), frames.size());
  for (size_t i = 0; i < frames.size(); ++i)
    ASSERT_NEAR(recording->samples[i], frames[i], 1.0 / 32768) << i;
}

TEST(DecodeAudio, AllFormatsSoundAlike) {
  const std::vector<float> frames = test::tones(kRate, 1, 1.0);
  for (const int format : {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_WAV | SF_FORMAT_FLOAT,
                           SF_FORMAT_WAV | SF_FORMAT_PCM_24, SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                           SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III,
                           SF_FORMAT_WAV | SF_FORMAT_ULAW, SF_FORMAT_OGG | SF_FORMAT_OPUS}) {
    const auto recording = decode(test::write_audio(frames, format, kRate, 1));
    ASSERT_TRUE(recording.ok()) << recording.status().message();
    EXPECT_NEAR(recording->seconds(), 1.0, 0.15);
    double power = 0.0;
    for (const float sample : recording->samples) power += double{sample} * sample;
    EXPECT_NEAR(power / kRate, 0.08, 0.012) << std::hex << format;
  }
}

TEST(DecodeAudio, ChannelsAreAveragedAndRatesChanged) {
  for (const int32_t rate : {8000, 22050, 44100, 48000, 96000}) {
    const std::vector<float> frames = test::tones(rate, 2, 0.5);
    const auto recording = decode(test::write_audio(frames, kWav, rate, 2));
    ASSERT_TRUE(recording.ok()) << recording.status().message();
    EXPECT_NEAR(recording->seconds(), 0.5, 0.002) << rate;
    double worst = 0.0;  // without both ends, where the filter reads silence
    for (size_t i = 500; i + 500 < recording->samples.size(); ++i) {
      const double t = static_cast<double>(i) / kRate;
      const double expected = 0.2 * (std::sin(6.2832 * 300 * t) + std::sin(6.2832 * 500 * t));
      worst = std::max(worst, std::fabs(expected - recording->samples[i]));
    }
    EXPECT_LE(worst, 2e-3) << rate;
  }
}

TEST(DecodeAudio, OthersAreRefusedByName) {
  const auto begins = [](std::string magic) { return magic + std::string(64, 'x'); };
  expect_refused("", StatusCode::kInvalidArgument, "nothing");
  expect_refused(begins(std::string("\0\0\0\x20", 4) + "ftypM4A "), StatusCode::kInvalidArgument,
                 "M4A");
  expect_refused(begins("\x1a\x45\xdf\xa3"), StatusCode::kInvalidArgument, "WebM");
  expect_refused(begins("caff"), StatusCode::kInvalidArgument, "CAF");
  expect_refused(begins("hello"), StatusCode::kInvalidArgument, "something else");
  expect_refused(begins(std::string("RIFF\0\0\0\0AVI ", 12)), StatusCode::kInvalidArgument,
                 "something else");
}

TEST(DecodeAudio, DamagedFilesAreRefused) {
  const std::string wav = test::write_audio(test::tones(kRate, 1, 0.2), kWav, kRate, 1);
  expect_refused(wav.substr(0, 20), StatusCode::kDataLoss, "damaged");
  std::string no_frames = wav.substr(0, 44);
  expect_refused(no_frames, StatusCode::kInvalidArgument, "some sound");
  const std::string flac =
      test::write_audio(test::tones(kRate, 1, 0.5), SF_FORMAT_FLAC | SF_FORMAT_PCM_16, kRate, 1);
  EXPECT_FALSE(decode(flac.substr(0, flac.size() / 2)).ok());
}

// A header that promises more than the file holds, or an impossible amount, takes no memory.
TEST(DecodeAudio, HeadersThatLieCostNothing) {
  const std::string wav = test::write_audio(test::tones(kRate, 1, 0.2), kWav, kRate, 1);
  const auto with = [&](size_t at, uint32_t value, size_t size) {
    std::string file = wav;
    std::memcpy(file.data() + at, &value, size);
    return file;
  };
  for (const uint32_t length : {0x7fffffffu, 0xffffffffu, 0xfffffff0u}) {
    const auto recording = decode(with(40, length, 4));
    if (!recording.ok()) continue;
    EXPECT_LE(recording->seconds(), 0.21);
  }
  EXPECT_FALSE(decode(with(22, 0, 2)).ok()) << "no channels";
  EXPECT_FALSE(decode(with(22, 999, 2)).ok()) << "999 channels";
  EXPECT_FALSE(decode(with(24, 0, 4)).ok()) << "0 Hz";
  EXPECT_FALSE(decode(with(24, 0x7fffffff, 4)).ok()) << "2 GHz";
  EXPECT_FALSE(decode(with(24, 1, 4)).ok()) << "1 Hz";
}

TEST(DecodeAudio, SamplesAreNumbers) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
    std::vector<float> frames = test::tones(kRate, 1, 0.2);
    frames[1000] = bad;
    expect_refused(test::write_audio(frames, SF_FORMAT_WAV | SF_FORMAT_FLOAT, kRate, 1),
                   StatusCode::kInvalidArgument, "[-1, 1]");
  }
}

TEST(DecodeAudio, LimitsHold) {
  const std::string wav = test::write_audio(test::tones(kRate, 2, 1.0), kWav, kRate, 2);
  expect_refused(wav, StatusCode::kTooLarge, "bytes", {.max_bytes = 1000});
  expect_refused(wav, StatusCode::kTooLarge, "seconds", {.max_seconds = 0.5});
  expect_refused(wav, StatusCode::kInvalidArgument, "channels", {.max_channels = 1});
  expect_refused(wav, StatusCode::kInvalidArgument, "sample rate", {.min_sample_rate = 20000});
}

// A bomb is a small file that decodes to a very long silence.
TEST(DecodeAudio, LongSilenceInFewBytesStopsAtTheLimit) {
  const std::string flac = test::write_audio(std::vector<float>(kRate * 120, 0.0f),
                                             SF_FORMAT_FLAC | SF_FORMAT_PCM_16, kRate, 1);
  EXPECT_LT(flac.size(), 200'000u);
  expect_refused(flac, StatusCode::kTooLarge, "seconds", {.max_seconds = 10.0});
}

TEST(DecodeAudio, AnyBytesEndWell) {
  std::mt19937 random(9);
  for (const int format :
       {kWav, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_OGG | SF_FORMAT_VORBIS,
        SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}) {
    const std::string file = test::write_audio(test::tones(kRate, 1, 0.2), format, kRate, 1);
    for (int round = 0; round < 60; ++round) {
      std::string damaged = file;
      for (int i = 0; i < 4; ++i)
        damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
      (void)decode(damaged, {.max_seconds = 5.0});
    }
  }
}

}  // namespace
}  // namespace quire
