// The file of a run of KV blocks: what its bytes mean, checked before any is believed.
//
//   header   magic, sizes, fingerprint of the model and its numerics, place in the sequence,
//            hashes and checksums of the blocks, all token ids of the prefix, cache keys, and the
//            header's own checksum; padded to 4096 bytes
//   payload  [blocks][groups], each block as it lies in memory
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/kv_files.h"

namespace quire {

// Of everything that the bytes of KV depend on beside tokens and cache keys: weights, element types,
// layout, and the program with its kernels.
struct KvFingerprint {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const KvFingerprint&, const KvFingerprint&) = default;
};

// Of a block in memory.
struct KvBlockShape {
  int32_t block_size = 0;  // tokens
  int32_t num_groups = 0;
  int64_t block_bytes = 0;  // of one group's block
  friend bool operator==(const KvBlockShape&, const KvBlockShape&) = default;
};

struct KvFileHeader {
  KvFingerprint fingerprint;
  KvBlockShape shape;
  int32_t first_block = 0;
  std::vector<KvHash> hashes;       // of each block
  std::vector<uint64_t> checksums;  // [blocks][groups]
  KvPrefix prefix;                  // to the end of the run

  int32_t num_blocks() const { return static_cast<int32_t>(hashes.size()); }
  int64_t payload_bytes() const {
    return int64_t{num_blocks()} * shape.num_groups * shape.block_bytes;
  }
};

inline constexpr int64_t kKvHeaderUnit = 4096;
// No prefix of the longest contexts comes near; what claims more is no file of ours.
inline constexpr int64_t kMaxKvHeaderBytes = int64_t{64} << 20;

int64_t kv_header_bytes(int32_t num_blocks, int32_t num_groups, int64_t num_tokens,
                        int64_t num_key_bytes);
std::vector<std::byte> encode_kv_header(const KvFileHeader& header);
// How many bytes of the file are its header, from the first kKvHeaderUnit of them. kDataLoss: it is
// no file of a run.
Result<int64_t> read_kv_header_size(std::span<const std::byte> bytes);
// Of a whole header and a file of so many bytes. kDataLoss says what is wrong.
Result<KvFileHeader> decode_kv_header(std::span<const std::byte> bytes, int64_t file_bytes);

// The name of the file, which tells fingerprint and content; other names are left alone.
std::string kv_file_name(const KvFingerprint& fingerprint, const KvHash& last, int32_t first_block);
bool is_kv_file_name(std::string_view name);

}  // namespace quire
