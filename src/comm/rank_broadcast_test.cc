#include "comm/rank_broadcast.h"

#include <sys/mman.h>

#include <random>
#include <thread>

#include "comm/testing/linked_ranks.h"

namespace quire {
namespace {

using Work = std::function<void(RankBroadcast& broadcast, RankLinks& links)>;

void on_all(int size, RankTransport transport, const Work& work) {
  test::on_all_ranks(size, {}, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    auto broadcast = RankBroadcast::join(**links, transport);
    ASSERT_TRUE(broadcast.ok()) << broadcast.status().message();
    work(**broadcast, **links);
  });
}

std::vector<std::byte> random_bytes(std::mt19937& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Frames of all sizes, some larger than the ring, to ranks that pause now and then.
TEST(RankBroadcast, EveryRankHearsTheSame) {
  constexpr int kNumFrames = 120;
  for (const RankTransport transport : {RankTransport::kFastest, RankTransport::kTcp}) {
    for (const int size : {2, 4}) {
      on_all(size, transport, [&](RankBroadcast& broadcast, RankLinks& links) {
        std::mt19937 random(7);  // the same on every rank
        for (uint32_t i = 0; i < kNumFrames; ++i) {
          const size_t most = i % 30 == 0 ? 3 * SharedPipe::kRingBytes : 20'000;
          const auto want = random_bytes(random, i % 7 == 0 ? 0 : random() % most);
          if (links.rank() == 0) {
            ASSERT_TRUE(broadcast.send(i, want).ok());
            continue;
          }
          if (i % 40 == static_cast<uint32_t>(10 * links.rank()))
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          Frame frame;
          const Status status = broadcast.receive(frame);
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(frame.kind, i);
          ASSERT_TRUE(frame.payload == want) << i;
        }
        test::part_in_peace(links);
      });
    }
  }
}

// A payload that no rank would take is refused before any of it is sent, and the group goes on.
TEST(RankBroadcast, ATooLongPayloadIsNotSent) {
  const auto size = static_cast<size_t>(kMaxFrameBytes) + 1;
  void* const bytes =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(bytes, MAP_FAILED);
  for (const RankTransport transport : {RankTransport::kFastest, RankTransport::kTcp}) {
    on_all(2, transport, [&](RankBroadcast& broadcast, RankLinks& links) {
      if (links.rank() == 0) {
        const Status status = broadcast.send(1, {static_cast<const std::byte*>(bytes), size});
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
        EXPECT_TRUE(broadcast.send(2, {}).ok());
      } else {
        Frame frame;
        EXPECT_TRUE(broadcast.receive(frame).ok());
        EXPECT_EQ(frame.kind, 2u);
      }
      test::part_in_peace(links);
    });
  }
  ::munmap(bytes, size);
}

// Every wait for a lost rank ends: the first rank's for room, and the others' for a frame.
TEST(RankBroadcast, ALostRankEndsEveryWait) {
  on_all(3, RankTransport::kFastest, [&](RankBroadcast& broadcast, RankLinks& links) {
    if (links.rank() == 2) return;  // its connections close
    Frame frame;
    const std::vector<std::byte> payload(SharedPipe::kRingBytes / 2);
    Status status;
    while (status.ok())
      status = links.rank() == 0 ? broadcast.send(1, payload) : broadcast.receive(frame);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("rank"), std::string::npos) << status.message();
  });
}

TEST(RankBroadcast, AFirstRankThatEndsWithoutAWordIsNoticed) {
  on_all(2, RankTransport::kFastest, [&](RankBroadcast& broadcast, RankLinks& links) {
    if (links.rank() == 0) return links.end();  // says goodbye to the watches, and sends nothing
    Frame frame;
    EXPECT_EQ(broadcast.receive(frame).code(), StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace quire
