// AudioInput turns the recordings of clients into media items, window by window.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "core/media.h"
#include "media/audio/log_mel.h"
#include "media/audio/recording.h"
#include "media/intake/held_bytes.h"

namespace quire {

struct AudioInputOptions {
  AudioLimits limits = {};
  // Bytes that the recordings of all unfinished requests may take together, with their windows. What
  // is being decoded comes on top of them (MediaMemory).
  int64_t max_held_bytes = int64_t{1} << 30;
};

// A WindowShape is the size of what a model hears at once.
struct WindowShape {
  int32_t num_bands = 0;
  int32_t num_frames = 0;      // of kSamplesPerFrame samples each
  int32_t num_embeddings = 0;  // that the encoder makes of a window

  int64_t num_samples() const { return int64_t{num_frames} * kSamplesPerFrame; }
  double seconds() const { return static_cast<double>(num_samples()) / kSpeechSampleRate; }
};

// A HeardRecording is a recording as models hear it. Its bytes count as held until the last copy of
// `lease` is gone.
struct HeardRecording {
  Bands bands;
  int64_t num_samples = 0;  // at kSpeechSampleRate
  std::shared_ptr<const void> lease;

  double seconds() const { return static_cast<double>(num_samples) / kSpeechSampleRate; }
  // Returns the number of frames that begin before the recording's end.
  int32_t num_frames() const {
    return static_cast<int32_t>((num_samples + kSamplesPerFrame - 1) / kSamplesPerFrame);
  }
};

// Immutable except for the counts of bytes; any thread may use it.
class AudioInput {
 public:
  explicit AudioInput(const WindowShape& shape, const AudioInputOptions& options = {});

  const AudioInputOptions& options() const { return options_; }
  const WindowShape& shape() const { return shape_; }

  // Decodes a file, which takes milliseconds to seconds. Returns the errors of decode_audio(), and
  // kResourceExhausted if other requests hold too many bytes at the moment.
  Result<HeardRecording> load(std::string_view file) const;

  // Returns the window that begins at `first_frame`; behind the recording's end it is silent.
  Result<std::shared_ptr<const MediaItem>> window(const HeardRecording& recording,
                                                  int32_t first_frame) const;

 private:
  Result<std::shared_ptr<const void>> hold(int64_t num_bytes) const;

  const WindowShape shape_;
  const AudioInputOptions options_;
  const LogMel log_mel_;
  const MediaMemory memory_;
};

}  // namespace quire
