#include "transfer/kv_file.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

KvFileHeader sample_header() {
  KvFileHeader header{
      .fingerprint = {1, 2, 3},
      .shape = {.pool = KvPool::kAttention, .cell_tokens = 2, .cell_bytes = 100},
      .first_cell = 1,
      .hashes = {{3, 4}, {5, 6}},
      .checksums = {7, 8},
      .prefix = {.tokens = {1, 2, 3, 4, 5, 6}, .keys = {.salt = "tenant", .adapter = "adapter"}}};
  return header;
}

TEST(KvFile, AHeaderComesBackAsItWas) {
  const KvFileHeader header = sample_header();
  const std::vector<std::byte> bytes = encode_kv_header(header);
  EXPECT_EQ(std::ssize(bytes), kKvHeaderUnit);
  const Result<KvFileHeader> back =
      decode_kv_header(bytes, std::ssize(bytes) + header.payload_bytes());
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->fingerprint, header.fingerprint);
  EXPECT_EQ(back->shape, header.shape);
  EXPECT_EQ(back->first_cell, header.first_cell);
  EXPECT_EQ(back->hashes, header.hashes);
  EXPECT_EQ(back->checksums, header.checksums);
  EXPECT_EQ(back->prefix.tokens, header.prefix.tokens);
  EXPECT_EQ(back->prefix.keys, header.prefix.keys);
}

TEST(KvFile, NoChangedByteAndNoOtherSizeIsBelieved) {
  const KvFileHeader header = sample_header();
  const std::vector<std::byte> bytes = encode_kv_header(header);
  const int64_t size = std::ssize(bytes) + header.payload_bytes();
  constexpr size_t kUsed = 88 + 2 * 16 + 2 * 8 + 6 * 4 + 13 + 8;
  std::mt19937 rng(1);
  for (size_t i = 0; i < kUsed; ++i) {
    std::vector<std::byte> changed = bytes;
    changed[i] ^= static_cast<std::byte>(1 + rng() % 255);
    EXPECT_EQ(decode_kv_header(changed, size).status().code(), StatusCode::kDataLoss) << i;
  }
  for (const int64_t other : {size - 1, size + 1, int64_t{0}})
    EXPECT_EQ(decode_kv_header(bytes, other).status().code(), StatusCode::kDataLoss);
  for (size_t count = 0; count < bytes.size(); count += 37) {
    EXPECT_EQ(decode_kv_header(std::span(bytes).first(count), size).status().code(),
              StatusCode::kDataLoss);
  }
}

TEST(KvFile, NamesAreToldFromOthers) {
  const KvFingerprint fingerprint{1, 2, 3};
  const std::string name = kv_file_name(fingerprint, {3, 4}, 17);
  EXPECT_EQ(name,
            fmt::format("{:016x}-00000000000000040000000000000003-17.kv", fingerprint.digest()));
  EXPECT_NE(fingerprint.digest(), (KvFingerprint{1, 2, 4}.digest()));
  EXPECT_TRUE(is_kv_file_name(name));
  for (const char* other : {"", ".kv", "key", "model.kv", "../../etc/passwd",
                            "0000000000000001-00000000000000040000000000000003-.kv",
                            "0000000000000001-0000000000000004000000000000000g-1.kv"})
    EXPECT_FALSE(is_kv_file_name(other)) << other;
}

}  // namespace
}  // namespace quire
