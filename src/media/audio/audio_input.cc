#include "media/audio/audio_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "media/audio/decode_audio.h"

namespace quire {
namespace {

std::string digest(std::span<const float> bands, const WindowShape& shape) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  const int ok =
      EVP_Digest(bands.data(), bands.size_bytes(), bytes.data(), &size, EVP_sha256(), nullptr);
  QUIRE_CHECK(ok == 1, "SHA-256 failed");
  return fmt::format("{:02x} {}x{}", fmt::join(bytes.begin(), bytes.begin() + size, ""),
                     shape.num_bands, shape.num_frames);
}

int64_t bytes_of(size_t num_floats) {
  return static_cast<int64_t>(num_floats) * int64_t{sizeof(float)};
}

}  // namespace

AudioInput::AudioInput(const WindowShape& shape, const AudioInputOptions& options)
    : shape_(shape),
      options_(options),
      log_mel_(shape.num_bands),
      memory_("recordings", options.max_held_bytes,
              sample_bytes(options.limits.max_seconds, kSpeechSampleRate)) {}

Result<std::shared_ptr<const void>> AudioInput::hold(int64_t num_bytes) const {
  const std::shared_ptr<HeldBytes> lease = memory_.lease();
  QUIRE_RETURN_IF_ERROR(memory_.hold(num_bytes, *lease));
  return std::shared_ptr<const void>(lease);
}

Result<HeardRecording> AudioInput::load(std::string_view file) const {
  std::unique_ptr<HeldBytes> decoded;
  QUIRE_ASSIGN_OR_RETURN(
      const Recording recording,
      decode_audio(std::as_bytes(std::span(file)), options_.limits, kSpeechSampleRate,
                   [&](int64_t num_bytes) { return memory_.decode(num_bytes, decoded); }));
  HeardRecording heard{.bands = log_mel_.compute(recording.samples),
                       .num_samples = std::ssize(recording.samples)};
  QUIRE_ASSIGN_OR_RETURN(heard.lease, hold(bytes_of(heard.bands.values.size())));
  return heard;
}

Result<std::shared_ptr<const MediaItem>> AudioInput::window(const HeardRecording& recording,
                                                            int32_t first_frame) const {
  const Bands& bands = recording.bands;
  const int32_t first = std::clamp(first_frame, 0, bands.num_frames);
  const int32_t count = std::min(shape_.num_frames, bands.num_frames - first);
  auto item = std::make_shared<MediaItem>();
  item->bands.reserve(static_cast<size_t>(shape_.num_bands) *
                      static_cast<size_t>(shape_.num_frames));
  for (int64_t band = 0; band < shape_.num_bands; ++band) {
    const auto begin = bands.values.begin() + band * bands.num_frames + first;
    item->bands.insert(item->bands.end(), begin, begin + count);
    item->bands.insert(item->bands.end(), static_cast<size_t>(shape_.num_frames - count),
                       bands.silence);
  }
  QUIRE_ASSIGN_OR_RETURN(item->lease, hold(bytes_of(item->bands.size())));
  item->key = digest(item->bands, shape_);
  item->num_embeddings = shape_.num_embeddings;
  item->height = shape_.num_bands;
  item->width = shape_.num_frames;
  return std::shared_ptr<const MediaItem>(std::move(item));
}

}  // namespace quire
