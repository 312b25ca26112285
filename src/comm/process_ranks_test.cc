#include "comm/process_ranks.h"

#include <chrono>
#include <cstring>

#include "comm/testing/linked_ranks.h"

namespace quire {
namespace {

using Work = std::function<void(RankGroup& group, RankLinks& links)>;

void on_all(int size, const RankLinksOptions& options, RankTransport transport, const Work& work) {
  test::on_all_ranks(size, options, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    auto joined = join_processes({.links = links->get(), .size = size}, 1 << 16, transport);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    EXPECT_EQ(joined->group->size(), size);
    EXPECT_EQ(joined->group->rank(), (*links)->rank());
    EXPECT_EQ(joined->transport, transport);
    EXPECT_EQ(dynamic_cast<SharedRanks*>(joined->group.get()) != nullptr,
              transport == RankTransport::kFastest);
    work(*joined->group, **links);
  });
}

// Each rank fills its columns and reads all, in two buffers that alternate, as in the exchanges of
// a model.
TEST(ProcessRanks, GatherOverEitherTransport) {
  for (const RankTransport transport : {RankTransport::kFastest, RankTransport::kTcp}) {
    for (const int size : {2, 3, 5}) {
      on_all(size, {}, transport, [&](RankGroup& group, RankLinks& links) {
        ASSERT_GE(std::ssize(group.memory()), 1 << 16);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(group.memory().data()) % 64, 0);
        std::vector<ByteColumns> columns;
        for (int rank = 0; rank < size; ++rank) columns.push_back({8 * rank, 8 * rank + 8});
        for (int round = 0; round < 300; ++round) {
          const int64_t at = round % 2 * 1024;
          std::memset(group.memory().data() + at + 8 * group.rank(), group.rank() + round, 8);
          ASSERT_TRUE(group.gather({.offset_bytes = at,
                                    .row_stride_bytes = 8 * size,
                                    .num_rows = 1,
                                    .columns = columns}));
          for (int i = 0; i < 8 * size; ++i)
            ASSERT_EQ(group.memory()[static_cast<size_t>(at + i)],
                      static_cast<std::byte>(i / 8 + round));
        }
        test::part_in_peace(links);
      });
    }
  }
}

TEST(ProcessRanks, ALostRankBreaksTheGroup) {
  for (const RankTransport transport : {RankTransport::kFastest, RankTransport::kTcp}) {
    const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}, {16, 24}};
    // A rank that waits until this deadline is stopped by the test's own limit.
    on_all(3, {.deadline_ms = 3'600'000}, transport, [&](RankGroup& group, RankLinks&) {
      const GatheredMatrix matrix{.row_stride_bytes = 24, .num_rows = 1, .columns = columns};
      ASSERT_TRUE(group.gather(matrix));
      if (group.rank() == 2) return;  // its connections close
      EXPECT_FALSE(group.gather(matrix));
      EXPECT_EQ(group.status().code(), StatusCode::kUnavailable);
      EXPECT_FALSE(group.gather(matrix));
    });
  }
}

TEST(ProcessRanks, ASilentRankIsNamed) {
  const std::vector<ByteColumns> columns = {{0, 8}, {8, 16}};
  on_all(2, {.deadline_ms = 200}, RankTransport::kFastest, [&](RankGroup& group, RankLinks&) {
    if (group.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_FALSE(group.gather({.row_stride_bytes = 16, .num_rows = 1, .columns = columns}));
    EXPECT_NE(group.status().message().find("rank 1 of 2"), std::string::npos)
        << group.status().message();
  });
}

}  // namespace
}  // namespace quire
