// AudioInput: from the recordings of clients to media items, window by window.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "core/media.h"
#include "media/audio/log_mel.h"
#include "media/audio/recording.h"

namespace quire {

struct AudioInputOptions {
  AudioLimits limits = {};
  // Of the recordings of all requests that are not done yet, with their windows.
  int64_t max_held_bytes = int64_t{1} << 30;
};

// Of what a model hears at once.
struct WindowShape {
  int32_t num_bands = 0;
  int32_t num_frames = 0;      // of kSamplesPerFrame
  int32_t num_embeddings = 0;  // that its encoder makes of them

  int64_t num_samples() const { return int64_t{num_frames} * kSamplesPerFrame; }
  double seconds() const { return static_cast<double>(num_samples()) / kSpeechSampleRate; }
};

// A recording as models hear it, counted as long as anybody has it.
struct HeardRecording {
  Bands bands;
  int64_t num_samples = 0;  // at kSpeechSampleRate
  std::shared_ptr<const void> lease;

  double seconds() const { return static_cast<double>(num_samples) / kSpeechSampleRate; }
  // Those that begin before its end.
  int32_t num_frames() const {
    return static_cast<int32_t>((num_samples + kSamplesPerFrame - 1) / kSamplesPerFrame);
  }
};

// Immutable but for the count of bytes; any thread.
class AudioInput {
 public:
  explicit AudioInput(const WindowShape& shape, const AudioInputOptions& options = {});

  const AudioInputOptions& options() const { return options_; }
  const WindowShape& shape() const { return shape_; }

  // Decodes a file: milliseconds to seconds. Errors are those of decode_audio(). kResourceExhausted:
  // other requests hold too much at this moment.
  Result<HeardRecording> load(std::string_view file) const;

  // What the model hears from a frame on, behind whose end there is silence.
  Result<std::shared_ptr<const MediaItem>> window(const HeardRecording& recording,
                                                  int32_t first_frame) const;

 private:
  Result<std::shared_ptr<const void>> hold(int64_t num_bytes) const;

  const WindowShape shape_;
  const AudioInputOptions options_;
  const LogMel log_mel_;
  std::shared_ptr<std::atomic<int64_t>> held_bytes_;  // shared with the leases
};

}  // namespace quire
