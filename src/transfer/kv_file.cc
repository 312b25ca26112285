#include "transfer/kv_file.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/hash/checksum.h"

namespace quire {
namespace {

constexpr std::array<char, 8> kMagic = {'Q', 'U', 'I', 'R', 'E', 'K', 'V', '2'};
constexpr uint64_t kHeaderSeed = 11;
constexpr uint64_t kFingerprintSeed = 12;

// The start of the file. Little-endian, as are all machines that this runs on.
struct Fixed {
  std::array<char, 8> magic;
  int64_t header_bytes;
  int64_t file_bytes;
  uint64_t fingerprint[3];
  int64_t cell_bytes;
  int64_t num_tokens;
  int32_t pool;
  int32_t cell_tokens;
  int32_t first_cell;
  int32_t num_cells;
  int32_t salt_bytes;
  int32_t adapter_bytes;
};
static_assert(std::is_trivially_copyable_v<Fixed> && sizeof(Fixed) == 88);

int64_t round_up(int64_t bytes) {
  return (bytes + kKvHeaderUnit - 1) / kKvHeaderUnit * kKvHeaderUnit;
}

// Returns the size of the header without padding, the checksum included.
int64_t used_bytes(int64_t num_cells, int64_t num_tokens, int64_t num_keys) {
  return int64_t{sizeof(Fixed)} + num_cells * int64_t{sizeof(KvHash) + sizeof(uint64_t)} +
         num_tokens * int64_t{sizeof(TokenId)} + num_keys + int64_t{sizeof(uint64_t)};
}

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  void put(const void* data, size_t count) {
    std::memcpy(out_.data() + at_, data, count);
    at_ += count;
  }
  size_t at() const { return at_; }

 private:
  std::vector<std::byte>& out_;
  size_t at_ = 0;
};

// Callers have checked that all the bytes are there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  void get(std::vector<T>& out, size_t count) {
    out.resize(count);
    get(out.data(), count * sizeof(T));
  }
  void get(void* data, size_t count) {
    if (count > 0) std::memcpy(data, bytes_.data() + at_, count);
    at_ += count;
  }
  std::string text(int32_t count) {
    std::string text(static_cast<size_t>(count), '\0');
    get(text.data(), text.size());
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

template <typename... Args>
Status damaged(fmt::format_string<Args...> text, Args&&... args) {
  return data_loss("KV file: {}", fmt::format(text, std::forward<Args>(args)...));
}

// Checks each number by itself first, so that no product of them overflows.
Status check(const Fixed& fixed, int64_t file_bytes) {
  constexpr int64_t kMost = (int64_t{1} << 26) - 1;
  constexpr int64_t kMostCellBytes = int64_t{1} << 32;
  struct Number {
    const char* name;
    int64_t value, least, most;
  };
  const Number numbers[] = {
      {"tokens", fixed.num_tokens, 1, kMost},
      {"tokens of a cell", fixed.cell_tokens, 1, kMost},
      {"cells before the first", fixed.first_cell, 0, kMost},
      {"cells", fixed.num_cells, 1, kMost},
      {"bytes of the salt", fixed.salt_bytes, 0, kMost},
      {"bytes of the adapter", fixed.adapter_bytes, 0, kMost},
      {"the pool", fixed.pool, 0, int64_t{kNumKvPools} - 1},
      {"bytes of a cell", fixed.cell_bytes, 1, kMostCellBytes},
  };
  for (const auto& [name, value, least, most] : numbers) {
    if (value < least || value > most)
      return damaged("{}: expected a number in [{}, {}], got {}", name, least, most, value);
  }
  const int64_t num_keys = int64_t{fixed.salt_bytes} + fixed.adapter_bytes;
  const int64_t header = round_up(used_bytes(fixed.num_cells, fixed.num_tokens, num_keys));
  if (fixed.header_bytes != header)
    return damaged("expected a header of {} bytes, got {}", header, fixed.header_bytes);
  const int64_t num_tokens = (int64_t{fixed.first_cell} + fixed.num_cells) * fixed.cell_tokens;
  if (fixed.num_tokens != num_tokens)
    return damaged("expected {} tokens up to the last cell, got {}", num_tokens, fixed.num_tokens);
  // < 2^58
  const int64_t expected_bytes = header + int64_t{fixed.num_cells} * fixed.cell_bytes;
  if (fixed.file_bytes != expected_bytes || file_bytes != expected_bytes) {
    return damaged("expected {} bytes, got a file of {} whose header says {}", expected_bytes,
                   file_bytes, fixed.file_bytes);
  }
  return {};
}

}  // namespace

uint64_t KvFingerprint::digest() const {
  const uint64_t parts[] = {model, types, program};
  return checksum(std::as_bytes(std::span(parts)), kFingerprintSeed);
}

int64_t kv_header_bytes(int32_t num_cells, int64_t num_tokens, int64_t num_key_bytes) {
  return round_up(used_bytes(num_cells, num_tokens, num_key_bytes));
}

std::vector<std::byte> encode_kv_header(const KvFileHeader& header) {
  const auto num_tokens = std::ssize(header.prefix.tokens);
  const CacheKeys& keys = header.prefix.keys;
  const int64_t size = kv_header_bytes(header.num_cells(), num_tokens,
                                       std::ssize(keys.salt) + std::ssize(keys.adapter));
  QUIRE_CHECK(header.checksums.size() == header.hashes.size(), "a checksum for each cell");
  const Fixed fixed{.magic = kMagic,
                    .header_bytes = size,
                    .file_bytes = size + header.payload_bytes(),
                    .fingerprint = {header.fingerprint.model, header.fingerprint.types,
                                    header.fingerprint.program},
                    .cell_bytes = header.shape.cell_bytes,
                    .num_tokens = num_tokens,
                    .pool = static_cast<int32_t>(header.shape.pool),
                    .cell_tokens = header.shape.cell_tokens,
                    .first_cell = header.first_cell,
                    .num_cells = header.num_cells(),
                    .salt_bytes = static_cast<int32_t>(keys.salt.size()),
                    .adapter_bytes = static_cast<int32_t>(keys.adapter.size())};
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  Writer writer(bytes);
  writer.put(&fixed, sizeof(fixed));
  writer.put(header.hashes.data(), header.hashes.size() * sizeof(KvHash));
  writer.put(header.checksums.data(), header.checksums.size() * sizeof(uint64_t));
  writer.put(header.prefix.tokens.data(), header.prefix.tokens.size() * sizeof(TokenId));
  writer.put(keys.salt.data(), keys.salt.size());
  writer.put(keys.adapter.data(), keys.adapter.size());
  const uint64_t sum = checksum(std::span(bytes).first(writer.at()), kHeaderSeed);
  writer.put(&sum, sizeof(sum));
  return bytes;
}

Result<int64_t> read_kv_header_size(std::span<const std::byte> bytes) {
  Fixed fixed;
  if (bytes.size() < sizeof(fixed)) {
    return damaged("expected a header of at least {} bytes, got {}", sizeof(fixed), bytes.size());
  }
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  if (fixed.magic != kMagic) return damaged("expected the magic bytes QUIREKV2");
  if (fixed.header_bytes < kKvHeaderUnit || fixed.header_bytes > kMaxKvHeaderBytes ||
      fixed.header_bytes % kKvHeaderUnit != 0) {
    return damaged("expected a header of a multiple of {} bytes, at most {}, got {}", kKvHeaderUnit,
                   kMaxKvHeaderBytes, fixed.header_bytes);
  }
  return fixed.header_bytes;
}

Result<KvFileHeader> decode_kv_header(std::span<const std::byte> bytes, int64_t file_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const int64_t size, read_kv_header_size(bytes));
  if (std::ssize(bytes) != size)
    return damaged("expected a header of {} bytes, got {}", size, bytes.size());
  Fixed fixed;
  std::memcpy(&fixed, bytes.data(), sizeof(fixed));
  QUIRE_RETURN_IF_ERROR(check(fixed, file_bytes));
  const auto used =
      static_cast<size_t>(used_bytes(fixed.num_cells, fixed.num_tokens,
                                     int64_t{fixed.salt_bytes} + fixed.adapter_bytes) -
                          int64_t{sizeof(uint64_t)});
  uint64_t sum;
  std::memcpy(&sum, bytes.data() + used, sizeof(sum));
  const uint64_t expected_sum = checksum(bytes.first(used), kHeaderSeed);
  if (sum != expected_sum) {
    return damaged("the header is damaged: expected the checksum {:016x}, got {:016x}",
                   expected_sum, sum);
  }
  KvFileHeader header{
      .fingerprint = {fixed.fingerprint[0], fixed.fingerprint[1], fixed.fingerprint[2]},
      .shape = {static_cast<KvPool>(fixed.pool), fixed.cell_tokens, fixed.cell_bytes},
      .first_cell = fixed.first_cell};
  Reader reader(bytes.subspan(sizeof(fixed)));
  const auto num_cells = static_cast<size_t>(fixed.num_cells);
  reader.get(header.hashes, num_cells);
  reader.get(header.checksums, num_cells);
  reader.get(header.prefix.tokens, static_cast<size_t>(fixed.num_tokens));
  header.prefix.keys.salt = reader.text(fixed.salt_bytes);
  header.prefix.keys.adapter = reader.text(fixed.adapter_bytes);
  return header;
}

std::string kv_file_name(const KvFingerprint& fingerprint, const KvHash& last, int32_t first_cell) {
  return fmt::format("{:016x}-{:016x}{:016x}-{}.kv", fingerprint.digest(), last.high, last.low,
                     first_cell);
}

bool is_kv_file_name(std::string_view name) {
  constexpr size_t kPrefix = 16 + 1 + 32 + 1;
  constexpr std::string_view kEnd = ".kv";
  if (name.size() <= kPrefix + kEnd.size() || name.size() > kPrefix + kEnd.size() + 10)
    return false;
  if (name[16] != '-' || name[kPrefix - 1] != '-' || !name.ends_with(kEnd)) return false;
  const auto all_of = [](std::string_view part, std::string_view allowed) {
    return part.find_first_not_of(allowed) == std::string_view::npos;
  };
  constexpr std::string_view kHex = "0123456789abcdef";
  const std::string_view first = name.substr(kPrefix, name.size() - kPrefix - kEnd.size());
  return all_of(name.substr(0, 16), kHex) && all_of(name.substr(17, 32), kHex) &&
         all_of(first, "0123456789");
}

}  // namespace quire
