#include "transfer/kv_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <tuple>

#include "base/files/file_descriptor.h"
#include "base/hash/checksum.h"

namespace quire {
namespace {

constexpr std::string_view kTemporary = ".writing-";
// Writing takes less than this; older temporary files were left by a writer that died.
constexpr int64_t kTemporaryLivesNs = 60'000'000'000;
constexpr size_t kKeyBytes = 16;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Status failed(const std::string& path, const char* what) {
  const int error = errno;
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const StatusCode code = is_full           ? StatusCode::kResourceExhausted
                          : error == ENOENT ? StatusCode::kNotFound
                                            : StatusCode::kInternal;
  return {code, fmt::format("{}: {}: {}", path, what, std::strerror(error))};
}

// Writes all pieces, in as many calls as needed.
Status write_all(int fd, std::vector<iovec> pieces, const std::string& path) {
  constexpr size_t kMost = 256;
  for (size_t i = 0; i < pieces.size();) {
    const auto count = static_cast<int>(std::min(kMost, pieces.size() - i));
    ssize_t written = ::writev(fd, pieces.data() + i, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(path, "write");
    for (; i < pieces.size() && static_cast<size_t>(written) >= pieces[i].iov_len; ++i)
      written -= static_cast<ssize_t>(pieces[i].iov_len);
    if (i == pieces.size()) break;
    pieces[i].iov_base = static_cast<std::byte*>(pieces[i].iov_base) + written;
    pieces[i].iov_len -= static_cast<size_t>(written);
  }
  return {};
}

Result<KvFileHeader> read_header(int fd, int64_t& header_bytes) {
  struct stat stat {};
  if (::fstat(fd, &stat) != 0) return internal_error("stat: {}", std::strerror(errno));
  std::vector<std::byte> bytes(static_cast<size_t>(kKvHeaderUnit));
  QUIRE_RETURN_IF_ERROR(read_piece(fd, {bytes.data(), kKvHeaderUnit, 0}));
  QUIRE_ASSIGN_OR_RETURN(header_bytes, read_kv_header_size(bytes));
  bytes.resize(static_cast<size_t>(header_bytes));
  QUIRE_RETURN_IF_ERROR(
      read_piece(fd, {bytes.data() + kKvHeaderUnit, header_bytes - kKvHeaderUnit, kKvHeaderUnit}));
  return decode_kv_header(bytes, stat.st_size);
}

// Returns the name of a file to write, which no other thread or process uses.
std::string temporary_name() {
  static std::atomic<uint64_t> num_written{0};
  return fmt::format("{}{}-{}", kTemporary, ::getpid(), ++num_written);
}

// Reads the key, or makes it if this is the first process. link() never replaces an existing file.
Result<uint64_t> read_or_make_key(const std::string& directory) {
  const std::string path = directory + "/key";
  for (int attempt = 0; attempt < 2; ++attempt) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::byte key[kKeyBytes];
    if (file.is_open()) {
      const Status status = read_piece(file.get(), {key, kKeyBytes, 0});
      if (!status.ok()) return status.with_context(path);
      return checksum(key);
    }
    std::random_device random;
    for (std::byte& byte : key) byte = static_cast<std::byte>(random());
    const std::string temporary = directory + "/" + temporary_name();
    const FileDescriptor made(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!made.is_open()) return failed(temporary, "open");
    QUIRE_RETURN_IF_ERROR(write_all(made.get(), {{key, kKeyBytes}}, temporary));
    const bool linked = ::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST;
    const Status status = linked ? Status() : failed(path, "link");
    ::unlink(temporary.c_str());
    QUIRE_RETURN_IF_ERROR(status);
  }
  return failed(path, "open");
}

// Returns whether the file holds the run that `source` and `prefix` describe.
bool fits(const KvFileHeader& header, const KvSource& source, const KvPrefix& prefix) {
  const std::vector<TokenId>& tokens = header.prefix.tokens;
  const int64_t end = int64_t{source.first_in_run} + source.count;
  const int64_t num_tokens = (int64_t{source.run_first_cell} + end) * header.shape.cell_tokens;
  return header.first_cell == source.run_first_cell && source.first_in_run >= 0 &&
         end <= header.num_cells() && header.prefix.keys == prefix.keys &&
         num_tokens <= std::ssize(prefix.tokens) &&
         std::equal(prefix.tokens.begin(), prefix.tokens.begin() + num_tokens, tokens.begin());
}

// Up to so many bytes of cells are read with one call.
constexpr int64_t kPieceBytes = int64_t{512} << 10;

// Returns reads of consecutive cells from `offset` of the file to the buffer, several cells at a
// time.
std::vector<FilePiece> pieces_of(int64_t offset, int32_t num_cells, int64_t cells_per_piece,
                                 int64_t cell_bytes, std::byte* buffer) {
  std::vector<FilePiece> pieces;
  for (int64_t i = 0; i < num_cells; i += cells_per_piece) {
    const int64_t count = std::min<int64_t>(cells_per_piece, num_cells - i);
    pieces.push_back({buffer + i * cell_bytes, count * cell_bytes, offset + i * cell_bytes});
  }
  return pieces;
}

// The parts of the name that file_set() returns. read_file_set() returns nothing for any other
// name.
struct FileSetName {
  uint64_t directory = 0;
  KvFingerprint fingerprint;
};
std::optional<FileSetName> read_file_set(std::string_view name) {
  constexpr std::string_view kStart = "quire";
  constexpr size_t kDigits = 16;
  if (!name.starts_with(kStart) || name.size() != kStart.size() + 4 * (1 + kDigits))
    return std::nullopt;
  name.remove_prefix(kStart.size());
  uint64_t parts[4];
  for (uint64_t& part : parts) {
    const char* const end = name.data() + 1 + kDigits;
    const auto read = std::from_chars(name.data() + 1, end, part, 16);
    if (name[0] != '-' || read.ec != std::errc() || read.ptr != end) return std::nullopt;
    name.remove_prefix(1 + kDigits);
  }
  return FileSetName{parts[0], {parts[1], parts[2], parts[3]}};
}

}  // namespace

Result<KvDirectory> KvDirectory::open(const std::string& path, const KvFingerprint& fingerprint) {
  std::error_code ec;
  const bool is_new = std::filesystem::create_directories(path, ec);
  if (!std::filesystem::is_directory(path, ec))
    return invalid_argument("{}: expected a directory, or a place to make one", path);
  if (is_new) std::filesystem::permissions(path, std::filesystem::perms::owner_all, ec);
  QUIRE_ASSIGN_OR_RETURN(const uint64_t seed, read_or_make_key(path));
  return KvDirectory(path, fingerprint, seed);
}

std::string KvDirectory::file_set() const {
  constexpr uint64_t kSeed = 3;
  return fmt::format("quire-{:016x}-{:016x}-{:016x}-{:016x}",
                     checksum(std::as_bytes(std::span(&hash_seed_, 1)), kSeed), fingerprint_.model,
                     fingerprint_.types, fingerprint_.program);
}

Status KvDirectory::check_file_set(const std::string& other) const {
  const std::optional<FileSetName> theirs = read_file_set(other);
  if (!theirs) return not_found("expected the remote_engine_id of a Quire server");
  const FileSetName ours = *read_file_set(file_set());
  if (theirs->directory != ours.directory) return not_found("it is in another --kv-cache-dir");
  if (theirs->fingerprint.model != ours.fingerprint.model)
    return not_found("it is of another model");
  if (theirs->fingerprint.types != ours.fingerprint.types)
    return not_found("it is of other element types (--dtype, --kv-cache-dtype)");
  if (theirs->fingerprint.program != ours.fingerprint.program)
    return not_found("it is of another build of Quire, or of another instruction set (--isa)");
  return {};
}

std::string KvDirectory::file_of(const KvRun& run) const {
  return kv_file_name(fingerprint_, run.hashes.back(), run.first_cell);
}

Result<KvRun> KvDirectory::store(const KvRun& wanted, const KvPrefix& prefix,
                                 const KvCellShape& shape,
                                 std::span<const std::byte> payload) const {
  KvFileHeader header{.fingerprint = fingerprint_,
                      .shape = shape,
                      .first_cell = wanted.first_cell,
                      .hashes = wanted.hashes,
                      .prefix = prefix};
  const auto bytes = static_cast<size_t>(shape.cell_bytes);
  for (size_t i = 0; i < header.hashes.size(); ++i)
    header.checksums.push_back(checksum(payload.subspan(i * bytes, bytes)));
  std::vector<std::byte> head = encode_kv_header(header);
  std::vector<iovec> pieces = {
      {head.data(), head.size()},
      {const_cast<std::byte*>(payload.data()), static_cast<size_t>(header.payload_bytes())}};

  KvRun run = wanted;
  run.file = file_of(run);
  run.num_bytes = static_cast<int64_t>(head.size()) + header.payload_bytes();
  const std::string temporary = full(temporary_name());
  Status status;
  {
    const FileDescriptor file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    status = file.is_open() ? write_all(file.get(), std::move(pieces), temporary)
                            : failed(temporary, "open");
  }
  if (status.ok() && ::rename(temporary.c_str(), full(run.file).c_str()) != 0)
    status = failed(full(run.file), "rename");
  if (status.ok()) return run;
  ::unlink(temporary.c_str());
  return status;
}

Result<int64_t> KvDirectory::load(const KvSource& source, const KvPrefix& prefix,
                                  const KvCellShape& shape, FileReads& reads,
                                  std::vector<std::byte>& buffer, const TakeCell& take) const {
  const std::string path = full(source.file);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return failed(path, "open");
  const int64_t num_bytes = source.count * shape.cell_bytes;
  const auto read = [&]() -> Status {
    int64_t offset = 0;
    QUIRE_ASSIGN_OR_RETURN(const KvFileHeader header, read_header(file.get(), offset));
    if (!(header.fingerprint == fingerprint_ && header.shape == shape) ||
        !fits(header, source, prefix))
      return not_found("another prefix");
    if (std::ssize(buffer) < num_bytes) buffer.resize(static_cast<size_t>(num_bytes));
    const int64_t per_piece = std::max<int64_t>(1, kPieceBytes / shape.cell_bytes);
    const std::vector<FilePiece> pieces =
        pieces_of(offset + source.first_in_run * shape.cell_bytes, source.count, per_piece,
                  shape.cell_bytes, buffer.data());
    return reads.read(file.get(), pieces, [&](size_t piece) -> Status {
      const auto begin = static_cast<int32_t>(static_cast<int64_t>(piece) * per_piece);
      const auto count = static_cast<int32_t>(pieces[piece].num_bytes / shape.cell_bytes);
      for (int32_t i = begin; i < begin + count; ++i) {
        const std::span<const std::byte> cell(buffer.data() + i * shape.cell_bytes,
                                              static_cast<size_t>(shape.cell_bytes));
        if (checksum(cell) != header.checksums[static_cast<size_t>(source.first_in_run + i)])
          return {StatusCode::kDataLoss, "a cell is damaged"};
        take(i, cell.data());
      }
      return {};
    });
  };
  const Status status = read();
  if (status.code() == StatusCode::kDataLoss) remove(source.file);
  if (!status.ok()) return status.with_context(path);
  ::futimens(file.get(), nullptr);  // marks the file as used; failure is harmless
  return num_bytes;
}

void KvDirectory::remove(const std::string& file) const { ::unlink(full(file).c_str()); }

int64_t KvDirectory::modified_ns() const {
  struct stat stat {};
  return ::stat(path_.c_str(), &stat) == 0 ? nanoseconds(stat.st_mtim) : 0;
}

std::vector<KvDirectory::Entry> KvDirectory::list() const {
  std::vector<Entry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path_.c_str()), ::closedir);
  if (directory == nullptr) return entries;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  while (const dirent* const item = ::readdir(directory.get())) {
    const std::string name = item->d_name;
    const bool is_temporary = name.starts_with(kTemporary);
    if (!is_temporary && !is_kv_file_name(name)) continue;
    struct stat stat {};
    if (::stat(full(name).c_str(), &stat) != 0 || !S_ISREG(stat.st_mode)) continue;
    const int64_t modified_ns = nanoseconds(stat.st_mtim);
    if (!is_temporary) {
      entries.push_back({name, modified_ns});
    } else if (nanoseconds(now) - modified_ns > kTemporaryLivesNs) {
      remove(name);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.modified_ns, a.file) < std::tie(b.modified_ns, b.file);
  });
  return entries;
}

Result<KvRun> KvDirectory::describe(const std::string& name) const {
  const std::string path = full(name);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return failed(path, "open");
  int64_t header_bytes = 0;
  Result<KvFileHeader> header = read_header(file.get(), header_bytes);
  if (header.status().code() == StatusCode::kDataLoss) remove(name);
  if (!header.ok()) return header.status().with_context(full(name));
  KvRun run{.pool = header->shape.pool,
            .first_cell = header->first_cell,
            .file = name,
            .num_bytes = header_bytes + header->payload_bytes()};
  if (header->fingerprint == fingerprint_) run.hashes = std::move(header->hashes);
  return run;
}

}  // namespace quire
