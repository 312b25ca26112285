#include <mpg123.h>

#include <algorithm>

#include "media/audio/sound_readers.h"

namespace quire {
namespace {

struct DeleteHandle {
  void operator()(mpg123_handle* handle) const { mpg123_delete(handle); }
};

class Mp3Reader final : public SoundReader {
 public:
  Status open(std::span<const std::byte> file) {
    file_ = file;
    num_channels_ = 1;
    int error = MPG123_OK;
    handle_.reset(mpg123_new(nullptr, &error));
    if (handle_ == nullptr)
      return internal_error("audio: libmpg123: {}", mpg123_plain_strerror(error));
    mpg123_param(handle_.get(), MPG123_ADD_FLAGS,
                 MPG123_QUIET | MPG123_MONO_MIX | MPG123_FORCE_FLOAT | MPG123_SKIP_ID3V2, 0.0);
    if (mpg123_open_feed(handle_.get()) != MPG123_OK)
      return internal_error("audio: libmpg123: {}", mpg123_strerror(handle_.get()));
    // Decodes up to the first frame, which has the sample rate.
    QUIRE_ASSIGN_OR_RETURN(const int64_t count, decode({}));
    (void)count;
    if (sample_rate_ == 0) return data_loss("audio: the file is damaged: it has no MP3 frame");
    return {};
  }

  Result<int64_t> read(std::span<float> samples) override { return decode(samples); }

 private:
  // Feeds the decoder until it has samples, or, if `samples` is empty, until it knows the format.
  Result<int64_t> decode(std::span<float> samples) {
    while (true) {
      size_t num_bytes = 0;
      const int status =
          mpg123_read(handle_.get(), samples.data(), samples.size_bytes(), &num_bytes);
      if (status == MPG123_NEW_FORMAT) {
        QUIRE_RETURN_IF_ERROR(take_format());
        if (samples.empty()) return 0;
      }
      if (num_bytes > 0) return static_cast<int64_t>(num_bytes / sizeof(float));
      if (status == MPG123_NEED_MORE) {
        if (file_.empty()) return 0;
        constexpr size_t kBytesAtOnce = 16384;
        const std::span<const std::byte> some = file_.first(std::min(kBytesAtOnce, file_.size()));
        file_ = file_.subspan(some.size());
        if (mpg123_feed(handle_.get(), reinterpret_cast<const unsigned char*>(some.data()),
                        some.size()) != MPG123_OK)
          return internal_error("audio: libmpg123: {}", mpg123_strerror(handle_.get()));
      } else if (status == MPG123_DONE) {
        return 0;
      } else if (status != MPG123_OK && status != MPG123_NEW_FORMAT) {
        return data_loss("audio: the file is damaged: {}", mpg123_strerror(handle_.get()));
      }
    }
  }

  Status take_format() {
    long rate = 0;
    int channels = 0, encoding = 0;
    if (mpg123_getformat(handle_.get(), &rate, &channels, &encoding) != MPG123_OK ||
        channels != 1 || encoding != MPG123_ENC_FLOAT_32)
      return data_loss("audio: the file is damaged: {}", mpg123_strerror(handle_.get()));
    if (sample_rate_ != 0 && rate != sample_rate_)
      return data_loss("audio: the file is damaged: its rate changes from {} to {} Hz",
                       sample_rate_, rate);
    sample_rate_ = static_cast<int32_t>(rate);
    return {};
  }

  std::unique_ptr<mpg123_handle, DeleteHandle> handle_;
  std::span<const std::byte> file_;  // the part that was not fed yet
};

}  // namespace

Result<std::unique_ptr<SoundReader>> open_mp3(std::span<const std::byte> file) {
  auto reader = std::make_unique<Mp3Reader>();
  QUIRE_RETURN_IF_ERROR(reader->open(file));
  return std::unique_ptr<SoundReader>(std::move(reader));
}

}  // namespace quire
