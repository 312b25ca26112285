#include "events/kv_event_batch.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "events/msgpack.h"

namespace quire {
namespace {

BlockHash hash(uint64_t x) { return {x, ~x}; }

BlockStored stored(uint64_t x, const BlockHash& parent, int32_t group = 0) {
  const auto token = static_cast<TokenId>(x);
  return {.hash = hash(x), .parent = parent, .token_ids = {token, token + 300}, .group = group};
}

class KvEventBatchTest : public testing::Test {
 protected:
  const BlockHash root = BlockHasher(7).root({});
  KvEventBatches batches{2, 7, KvEventFormat::kArray};

  std::string stored_bytes(const std::vector<uint64_t>& hashes, uint64_t parent) {
    std::string out =
        "\x98\xab"
        "BlockStored";
    msgpack::array(out, hashes.size());
    for (const uint64_t x : hashes) msgpack::number(out, x);
    parent == 0 ? msgpack::nil(out) : msgpack::number(out, parent);
    msgpack::array(out, hashes.size() * 2);
    for (const uint64_t x : hashes) {
      msgpack::number(out, x);
      msgpack::number(out, x + 300);
    }
    return out + "\x02\xc0\xa3GPU\xc0";
  }
  static std::string batch(const std::vector<std::string>& events) {
    std::string out = "\x93";
    msgpack::real(out, 1.5);
    msgpack::array(out, events.size());
    for (const std::string& event : events) out += event;
    return out + "\xc0";
  }
};

TEST_F(KvEventBatchTest, BlocksThatFollowEachOtherAreOneEvent) {
  const std::vector<KvEvent> events = {stored(5, root), stored(6, hash(5)), stored(9, hash(5))};
  EXPECT_EQ(batches.encode(events, 1.5), batch({stored_bytes({5, 6}, 0), stored_bytes({9}, 5)}));
  const std::vector<KvEvent> removed = {BlockRemoved{hash(9)}, BlockRemoved{hash(6)},
                                        AllBlocksCleared{}, AllBlocksCleared{}};
  EXPECT_EQ(batches.encode(removed, 1.5), batch({"\x93\xac"
                                                 "BlockRemoved\x92\x09\x06\xa3GPU",
                                                 "\x91\xb0"
                                                 "AllBlocksCleared",
                                                 "\x91\xb0"
                                                 "AllBlocksCleared"}));
}

// Blocks with a salt, an adapter, media or another group of layers are not identified by their
// tokens.
TEST_F(KvEventBatchTest, BlocksThatTokensDoNotNameAreLeftOut) {
  const BlockHash salted = BlockHasher(7).root({.salt = "tenant", .adapter = ""});
  const std::vector<KvEvent> events = {stored(5, salted), stored(6, hash(5)),
                                       stored(7, root, /*group=*/1), BlockRemoved{hash(5)}};
  EXPECT_EQ(batches.encode(events, 1.5), "");
  EXPECT_EQ(batches.encode({}, 1.5), "");
  const std::vector<KvEvent> plain = {stored(8, root)};
  EXPECT_EQ(batches.encode(plain, 1.5), batch({stored_bytes({8}, 0)}));
}

TEST_F(KvEventBatchTest, MapsNameTheirFields) {
  KvEventBatches maps(2, 7, KvEventFormat::kMap);
  // Each key or value that is text follows a byte with its length.
  const auto text = [](std::string_view x) {
    return std::string(1, static_cast<char>(0xa0 + x.size())) + std::string(x);
  };
  const std::vector<KvEvent> stores = {stored(5, root), stored(6, hash(5))};
  EXPECT_EQ(maps.encode(stores, 1.5),
            batch({"\x88" + text("type") + text("BlockStored") + text("block_hashes") +
                   "\x92\x05\x06" + text("parent_block_hash") + "\xc0" + text("token_ids") +
                   "\x94\x05\xcd\x01\x31\x06\xcd\x01\x32" + text("block_size") + "\x02" +
                   text("lora_id") + "\xc0" + text("medium") + text("GPU") + text("lora_name") +
                   "\xc0"}));
  const std::vector<KvEvent> leave = {BlockRemoved{hash(6)}, AllBlocksCleared{}};
  EXPECT_EQ(maps.encode(leave, 1.5),
            batch({"\x83" + text("type") + text("BlockRemoved") + text("block_hashes") +
                       "\x91\x06" + text("medium") + text("GPU"),
                   "\x81" + text("type") + text("AllBlocksCleared")}));
}

TEST(Msgpack, NumbersTakeTheLeastBytes) {
  const std::pair<uint64_t, std::string> cases[] = {
      {0, std::string(1, '\0')},
      {127, "\x7f"},
      {128, "\xcc\x80"},
      {255, "\xcc\xff"},
      {256, std::string("\xcd\x01\0", 3)},
      {65536, std::string("\xce\0\x01\0\0", 5)},
      {~uint64_t{0}, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"}};
  for (const auto& [x, bytes] : cases) {
    std::string out;
    msgpack::number(out, x);
    EXPECT_EQ(out, bytes) << x;
  }
  std::string out;
  msgpack::array(out, 16);
  EXPECT_EQ(out, std::string("\xdc\0\x10", 3));
}

}  // namespace
}  // namespace quire
