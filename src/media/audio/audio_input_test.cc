#include "media/audio/audio_input.h"

#include <gtest/gtest.h>

#include "media/testing/test_audio.h"

namespace quire {
namespace {

constexpr WindowShape kShape{.num_bands = 8, .num_frames = 100, .num_embeddings = 50};

std::string file_of(double seconds) {
  return test::write_audio(test::tones(kSpeechSampleRate, 1, seconds),
                           SF_FORMAT_WAV | SF_FORMAT_PCM_16, kSpeechSampleRate, 1);
}

TEST(AudioInput, WindowsAreCutFromTheWhole) {
  const AudioInput input(kShape);
  const auto recording = input.load(file_of(2.5));
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  EXPECT_EQ(recording->num_samples, 40000);
  EXPECT_EQ(recording->num_frames(), 250);
  const auto middle = input.window(*recording, 120);
  ASSERT_TRUE(middle.ok());
  const MediaItem& item = **middle;
  EXPECT_EQ(item.num_embeddings, 50);
  EXPECT_EQ(item.height, 8);
  EXPECT_EQ(item.width, 100);
  const Bands& bands = recording->bands;
  for (int32_t band = 0; band < 8; ++band) {
    for (int32_t frame = 0; frame < 100; ++frame)
      EXPECT_EQ(item.bands[static_cast<size_t>(100 * band + frame)],
                bands.values[static_cast<size_t>(band * bands.num_frames + 120 + frame)]);
  }
  const auto last = input.window(*recording, 240);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ((*last)->bands.back(), bands.silence);
  EXPECT_NE((*last)->key, item.key);
  EXPECT_EQ((*input.window(*recording, 120))->key, item.key) << "of the content";
  EXPECT_EQ((*input.window(*recording, 1 << 20))->bands.front(), bands.silence);
}

TEST(AudioInput, WhatIsHeldIsBounded) {
  const AudioInput input(kShape, {.max_held_bytes = 12'000});
  auto recording = input.load(file_of(2.5));
  ASSERT_TRUE(recording.ok());
  auto window = input.window(*recording, 0);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(input.load(file_of(2.5)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(input.load(file_of(2.5)).status().code(), StatusCode::kResourceExhausted)
      << "what is refused holds nothing";
  recording = Status(StatusCode::kInternal, "gone");
  EXPECT_TRUE(input.load(file_of(2.5)).ok());
}

}  // namespace
}  // namespace quire
