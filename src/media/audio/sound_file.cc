#include <sndfile.h>

#include <algorithm>
#include <cstring>

#include "media/audio/sound_readers.h"

namespace quire {
namespace {

// A MemoryFile is a file in memory for libsndfile's callbacks.
struct MemoryFile {
  std::span<const std::byte> bytes;
  sf_count_t position = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};

MemoryFile& file_of(void* data) { return *static_cast<MemoryFile*>(data); }

sf_count_t file_size(void* data) { return file_of(data).size(); }

sf_count_t file_tell(void* data) { return file_of(data).position; }

sf_count_t file_seek(sf_count_t offset, int whence, void* data) {
  MemoryFile& file = file_of(data);
  const sf_count_t base = whence == SEEK_CUR ? file.position : whence == SEEK_END ? file.size() : 0;
  if (offset > file.size() || offset < -file.size()) return -1;
  if (base + offset < 0 || base + offset > file.size()) return -1;
  return file.position = base + offset;
}

sf_count_t file_read(void* to, sf_count_t count, void* data) {
  MemoryFile& file = file_of(data);
  const sf_count_t some = std::clamp<sf_count_t>(count, 0, file.size() - file.position);
  std::memcpy(to, file.bytes.data() + file.position, static_cast<size_t>(some));
  file.position += some;
  return some;
}

sf_count_t file_write(const void*, sf_count_t, void*) { return 0; }

struct CloseFile {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

class SoundFileReader final : public SoundReader {
 public:
  Status open(std::span<const std::byte> bytes) {
    memory_.bytes = bytes;
    SF_VIRTUAL_IO io{file_size, file_seek, file_read, file_write, file_tell};
    file_.reset(sf_open_virtual(&io, SFM_READ, &info_, &memory_));
    if (file_ == nullptr) return data_loss("audio: the file is damaged: {}", sf_strerror(nullptr));
    sample_rate_ = info_.samplerate;
    num_channels_ = info_.channels;
    return {};
  }

  Result<int64_t> read(std::span<float> samples) override {
    const sf_count_t count =
        sf_readf_float(file_.get(), samples.data(), std::ssize(samples) / num_channels_);
    if (const int error = sf_error(file_.get()); error != SF_ERR_NO_ERROR)
      return data_loss("audio: the file is damaged: {}", sf_error_number(error));
    return std::max<int64_t>(count, 0);
  }

  int64_t num_frames() const override { return info_.frames < SF_COUNT_MAX ? info_.frames : -1; }

 private:
  MemoryFile memory_;
  SF_INFO info_{};
  std::unique_ptr<SNDFILE, CloseFile> file_;
};

}  // namespace

Result<std::unique_ptr<SoundReader>> open_sound_file(std::span<const std::byte> file) {
  auto reader = std::make_unique<SoundFileReader>();
  QUIRE_RETURN_IF_ERROR(reader->open(file));
  return std::unique_ptr<SoundReader>(std::move(reader));
}

}  // namespace quire
