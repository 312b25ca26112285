// The file format of a run of KV cells. Every byte is checked before it is used.
//
//   header   magic, sizes, fingerprint of the model and its numerics, place in the sequence,
//            hashes and checksums of the cells, all token ids of the prefix, cache keys, and the
//            header's own checksum; padded to 4096 bytes
//   payload  [cells], each as transfer/kv_cells.h has it
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/kv_files.h"

namespace quire {

// Everything that the bytes of KV depend on, apart from tokens and cache keys.
struct KvFingerprint {
  uint64_t model = 0;    // weights and configuration
  uint64_t types = 0;    // of the elements: weights, activations and the cache
  uint64_t program = 0;  // the program with its kernels, and their instruction set
  uint64_t digest() const;
  friend bool operator==(const KvFingerprint&, const KvFingerprint&) = default;
};

struct KvCellShape {
  KvPool pool = KvPool::kAttention;
  int32_t cell_tokens = 0;
  int64_t cell_bytes = 0;
  friend bool operator==(const KvCellShape&, const KvCellShape&) = default;
};

struct KvFileHeader {
  KvFingerprint fingerprint;
  KvCellShape shape;
  int32_t first_cell = 0;
  std::vector<KvHash> hashes;       // by cell
  std::vector<uint64_t> checksums;  // by cell
  KvPrefix prefix;                  // up to the end of the run

  int32_t num_cells() const { return static_cast<int32_t>(hashes.size()); }
  int64_t payload_bytes() const { return int64_t{num_cells()} * shape.cell_bytes; }
};

inline constexpr int64_t kKvHeaderUnit = 4096;
// The longest contexts need far less; a file with a larger header is not one of ours.
inline constexpr int64_t kMaxKvHeaderBytes = int64_t{64} << 20;

int64_t kv_header_bytes(int32_t num_cells, int64_t num_tokens, int64_t num_key_bytes);
std::vector<std::byte> encode_kv_header(const KvFileHeader& header);
// Returns the size of the header, given the first kKvHeaderUnit bytes of the file. kDataLoss: the
// file is not that of a run.
Result<int64_t> read_kv_header_size(std::span<const std::byte> bytes);
// Decodes a whole header, of a file of `file_bytes`. kDataLoss: the message says what is wrong.
Result<KvFileHeader> decode_kv_header(std::span<const std::byte> bytes, int64_t file_bytes);

// Returns the name of the file, which contains the fingerprint and identifies the content.
std::string kv_file_name(const KvFingerprint& fingerprint, const KvHash& last, int32_t first_cell);
bool is_kv_file_name(std::string_view name);

}  // namespace quire
