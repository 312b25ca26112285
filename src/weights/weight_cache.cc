#include "weights/weight_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>

#include "base/files/file_descriptor.h"
#include "base/hash/checksum.h"
#include "base/log.h"
#include "base/threads/thread_team.h"

namespace quire {
namespace {

// Must be raised when the meaning of packed bytes changes.
constexpr int kLayoutVersion = 4;
constexpr std::array<char, 8> kMagic = {'Q', 'U', 'I', 'R', 'E', 'P', 'W', '1'};
constexpr int64_t kHeaderBytes = 4096;
constexpr int64_t kChunkBytes = int64_t{4} << 20;

struct Header {
  std::array<char, 8> magic;
  uint64_t key[2];  // hash of everything that decides the bytes
  uint64_t num_bytes;
  uint64_t sum;         // checksum of the bytes
  uint64_t header_sum;  // checksum of the fields above
};

// Returns a checksum. It does not protect against forgery: who can write the cache can also write
// the weights.
uint64_t sum_of(const std::byte* data, int64_t count, uint64_t seed = 7) {
  return checksum({data, static_cast<size_t>(count)}, seed);
}

// Returns the checksum of large memory: threads compute those of chunks, which are combined in
// order.
uint64_t sum_of_all(const std::byte* data, int64_t count, ThreadTeam* team) {
  const int64_t chunks = (count + kChunkBytes - 1) / kChunkBytes;
  std::vector<uint64_t> sums(static_cast<size_t>(chunks));
  const auto some = [&](int thread, int num_threads) {
    const WorkRange mine = split_work(chunks, 1, thread, num_threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      sums[static_cast<size_t>(i)] =
          sum_of(data + i * kChunkBytes, std::min(kChunkBytes, count - i * kChunkBytes));
    }
  };
  if (team == nullptr) {
    some(0, 1);
  } else {
    team->run([&](int thread) { some(thread, team->size()); });
  }
  uint64_t sum = 1;
  for (const uint64_t one : sums) sum = mix64(sum, one);
  return sum;
}

std::string spec_text(const WeightSpec& spec) {
  const QuantSpec& q = spec.quant;
  return fmt::format("{}x{} {} {} q{} {} {} {} {} {} {} {} {}", spec.n, spec.k,
                     static_cast<int>(spec.dtype), static_cast<int>(spec.compute), q.bits,
                     static_cast<int>(q.codebook), q.offset, q.group_size,
                     static_cast<int>(q.scale_type), static_cast<int>(q.zero_kind),
                     static_cast<int>(q.super_scale_type), q.super_group_size, q.has_column_order);
}

// Returns what the bytes of the file depend on: the checkpoint's files with sizes and times, and
// for each slot which bytes go where and how they are packed.
std::string key_text(const LoadPlan& plan, const WeightCacheOptions& cache) {
  std::string text = fmt::format("layout {} {}\n", kLayoutVersion, cache.packing);
  for (const ModelFiles::Identity& file : cache.files->identities()) {
    text += fmt::format("{} {} {}\n", file.path, file.size_bytes, file.modified_ns);
  }
  const auto tensor_text = [&](const RawTensor& tensor) {
    text += fmt::format("{} {} {};", tensor.name, tensor.type_name, tensor.data.size());
    const auto begin = tensor.data.first(std::min<size_t>(tensor.data.size(), 64));
    text += fmt::format("{:x};", sum_of(begin.data(), static_cast<int64_t>(begin.size()), 3));
  };
  for (const ResolvedSlot& resolved : plan.slots) {
    for (const ResolvedSlot::Part& part : resolved.parts) {
      text += fmt::format("{} {} {} {} {} {} {} ", part.rows, part.transposed, part.offset,
                          part.is_log, part.unit_rows, part.first_row, part.row_step);
      if (part.tensor != nullptr) {
        tensor_text(*part.tensor);
        text += fmt::format("{};", part.data.data() - part.tensor->data.data());
      }
      if (part.quant == nullptr) continue;
      for (const RawTensor* tensor : part.quant->tensors()) tensor_text(*tensor);
    }
    if (resolved.slot->vector != nullptr) text += fmt::format("x{}", resolved.slot->scale);
    if (resolved.slot->matrix != nullptr) {
      for (const PackedWeight& part : resolved.slot->matrix->parts) text += spec_text(part.spec);
    }
    if (resolved.slot->table != nullptr) {
      const TableWeight& table = *resolved.slot->table;
      text += fmt::format("table {} {}", static_cast<int>(table.dtype), resolved.borrowed);
      if (table.packed) text += spec_text(table.packed->spec);
    }
    text += '\n';
  }
  return text;
}

// Returns false, with the cause in errno, if not all bytes could be written.
bool write_all(const FileDescriptor& file, const void* data, int64_t count) {
  const auto* from = static_cast<const char*>(data);
  while (count > 0) {
    const ssize_t written =
        ::write(file.get(), from, static_cast<size_t>(std::min(count, kChunkBytes)));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    count -= written;
  }
  return true;
}

class WeightCache {
 public:
  WeightCache(const LoadPlan& plan, const WeightCacheOptions& options, ThreadTeam* team)
      : num_bytes_(plan.arena_bytes()), team_(team) {
    const std::string text = key_text(plan, options);
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    for (uint64_t i = 0; i < 2; ++i) {
      key_[i] = sum_of(bytes, static_cast<int64_t>(text.size()), 11 + i);
    }
    path_ = (std::filesystem::path(options.dir) /
             fmt::format("{:016x}{:016x}.weights", key_[0], key_[1]))
                .string();
  }

  const std::string& path() const { return path_; }

  // Returns kNotFound if there is no such file, kDataLoss if it is damaged or does not fit.
  Result<Arena> read() const {
    const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return not_found("{}: {}", path_, std::strerror(errno));
    Header header{};
    struct stat info {};
    if (::fstat(file.get(), &info) != 0 || info.st_size != kHeaderBytes + num_bytes_ ||
        ::pread(file.get(), &header, sizeof header, 0) != sizeof header) {
      return data_loss("{}: expected {} bytes, got {}", path_, kHeaderBytes + num_bytes_,
                       info.st_size);
    }
    if (header.magic != kMagic || header.header_sum != header_sum(header) ||
        header.key[0] != key_[0] || header.key[1] != key_[1] ||
        header.num_bytes != static_cast<uint64_t>(num_bytes_)) {
      return data_loss("{}: its header is not that of this model", path_);
    }
    QUIRE_ASSIGN_OR_RETURN(Arena arena, Arena::map_file(file.get(), kHeaderBytes, num_bytes_));
    if (sum_of_all(arena.data(), num_bytes_, team_) != header.sum) {
      return data_loss("{}: its bytes do not have the sum that was written", path_);
    }
    return arena;
  }

  Status write(const Arena& arena) const {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
    if (error) return internal_error("{}: {}", path_, error.message());
    Header header{.magic = kMagic,
                  .key = {key_[0], key_[1]},
                  .num_bytes = static_cast<uint64_t>(num_bytes_),
                  .sum = sum_of_all(arena.data(), num_bytes_, team_),
                  .header_sum = 0};
    header.header_sum = header_sum(header);
    std::array<std::byte, kHeaderBytes> block{};
    std::memcpy(block.data(), &header, sizeof header);
    // The name is used once, so that processes, and loads of one process, that start at once do not
    // write one file.
    static std::atomic<uint64_t> num_written{0};
    const std::string partial = fmt::format("{}.{}-{}.partial", path_, ::getpid(), ++num_written);
    const Status status = write_file(partial, block, arena);
    if (!status.ok()) ::unlink(partial.c_str());
    return status;
  }

 private:
  Status write_file(const std::string& partial, std::span<const std::byte> header,
                    const Arena& arena) const {
    const FileDescriptor file(
        ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.is_open() && write_all(file, header.data(), kHeaderBytes) &&
        write_all(file, arena.data(), num_bytes_) && ::fdatasync(file.get()) == 0 &&
        std::rename(partial.c_str(), path_.c_str()) == 0) {
      return {};
    }
    return internal_error("{}: {}", path_, std::strerror(errno));  // before close() may change it
  }

  static uint64_t header_sum(const Header& header) {
    return sum_of(reinterpret_cast<const std::byte*>(&header), offsetof(Header, header_sum), 5);
  }

  std::string path_;
  uint64_t key_[2] = {};
  int64_t num_bytes_;
  ThreadTeam* team_;
};

}  // namespace

Result<Arena> load_cached_weights(const LoadPlan& plan, const LoadOptions& options,
                                  const WeightCacheOptions& cache) {
  const bool has_files = cache.files != nullptr && !cache.files->identities().empty();
  if (cache.dir.empty() || !has_files || plan.arena_bytes() == 0) {
    QUIRE_ASSIGN_OR_RETURN(Arena arena, Arena::create(plan.arena_bytes()));
    QUIRE_RETURN_IF_ERROR(load_checkpoint(plan, arena, options));
    return arena;
  }
  const WeightCache files(plan, cache, options.team);
  Result<Arena> cached = files.read();
  if (cached.ok()) {
    bind_checkpoint(plan, *cached);
    if (options.on_progress) options.on_progress(1, 1);
    return cached;
  }
  if (cached.status().code() != StatusCode::kNotFound) {
    log_warn("weight cache: {}; packing the weights again", cached.status().message());
  }
  QUIRE_ASSIGN_OR_RETURN(Arena arena, Arena::create(plan.arena_bytes()));
  QUIRE_RETURN_IF_ERROR(load_checkpoint(plan, arena, options));
  if (const Status written = files.write(arena); !written.ok()) {
    log_warn("weight cache: {}", written.message());
  }
  return arena;
}

}  // namespace quire
