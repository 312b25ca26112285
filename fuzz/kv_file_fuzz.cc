// The input is the header of a file of KV. It is refused, or decodes to a header that can be
// encoded and decoded again, to the same value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "transfer/kv_file.h"

namespace {

bool equal(const quire::KvFileHeader& a, const quire::KvFileHeader& b) {
  return a.fingerprint == b.fingerprint && a.shape == b.shape && a.first_cell == b.first_cell &&
         a.hashes == b.hashes && a.checksums == b.checksums && a.prefix.tokens == b.prefix.tokens &&
         a.prefix.keys == b.prefix.keys;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(begin, begin + size);
  const quire::Result<int64_t> header_bytes = quire::read_kv_header_size(bytes);
  if (!header_bytes.ok()) return 0;
  // The size that the header requires of the file, so that the checks behind the first one are
  // reached.
  int64_t file_bytes = 0;
  for (size_t i = 0; i < 8; ++i)
    file_bytes |= static_cast<int64_t>(std::to_integer<uint64_t>(bytes[16 + i]) << (8 * i));
  const quire::Result<quire::KvFileHeader> header = quire::decode_kv_header(bytes, file_bytes);
  if (!header.ok()) return 0;
  const std::vector<std::byte> again = quire::encode_kv_header(*header);
  const quire::Result<quire::KvFileHeader> second = quire::decode_kv_header(again, file_bytes);
  if (!second.ok() || !equal(*header, *second)) std::abort();
  return 0;
}
