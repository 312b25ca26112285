#include "ranks/host_blocks/host_block_link.h"

#include <deque>
#include <map>
#include <random>

#include "comm/testing/linked_ranks.h"

namespace quire {
namespace {

constexpr int32_t kNumBlocks = 9, kNumHostBlocks = 7;
constexpr int64_t kBlockBytes = 5;

using Memory = std::vector<std::byte>;

HostBlockLink::Blocks blocks_in(Memory& memory) {
  HostBlockLink::Blocks blocks;
  blocks[0] = {.data = memory.data(),
               .block_bytes = kBlockBytes,
               .num_blocks = kNumHostBlocks,
               .strips = {}};
  return blocks;
}

// Returns copies of any blocks, in an order in which later copies read what earlier ones wrote.
StepPlan random_plan(std::mt19937& rng) {
  StepPlan plan;
  const auto draw = [&](int32_t end) {
    return BlockId(1 + static_cast<int32_t>(rng() % (end - 1)));
  };
  for (size_t i = rng() % 5; i > 0; --i) {
    plan.host_copies.push_back(
        {.block = draw(kNumBlocks), .host_block = draw(kNumHostBlocks), .to_host = rng() % 2 == 0});
  }
  return plan;
}

void carry_out(const StepPlan& plan, Memory& device, Memory& host) {
  for (const HostBlockCopy& copy : plan.host_copies) {
    const auto here = device.begin() + copy.block.value * kBlockBytes;
    const auto there = host.begin() + copy.host_block.value * kBlockBytes;
    copy.to_host ? std::copy_n(here, kBlockBytes, there) : std::copy_n(there, kBlockBytes, here);
  }
}

// Returns whether a plan that is not done reads or writes the block, which threads must then not
// touch.
bool is_in_use(const std::deque<StepPlan>& plans, BlockId block) {
  for (const StepPlan& plan : plans) {
    for (const HostBlockCopy& copy : plan.host_copies) {
      if (copy.host_block == block) return true;
    }
  }
  return false;
}

// The first rank, with up to two steps under way. `expected` is the other rank's memory, as it
// would be if they shared it.
void lead(RankLinks& links, std::deque<StepPlan> plans, Memory device, int64_t max_message_bytes) {
  Memory host(kNumHostBlocks * kBlockBytes), expected_host = host;
  HostBlockLink link(links, 1, blocks_in(host), max_message_bytes);
  std::mt19937 rng(2);
  std::deque<StepPlan> under_way;
  const auto collect = [&] {
    if (!host_blocks_written(under_way.front()).empty()) {
      ASSERT_TRUE(link.receive().ok());
    }
    under_way.pop_front();
  };
  while (!plans.empty() || !under_way.empty()) {
    if (plans.empty() || (under_way.size() == 2 || (!under_way.empty() && rng() % 2 == 0))) {
      collect();
      if (under_way.empty()) {
        EXPECT_EQ(host, expected_host);
      }
      continue;
    }
    // A file is read into a block.
    const BlockId block(1 + static_cast<int32_t>(rng() % (kNumHostBlocks - 1)));
    if (!is_in_use(under_way, block)) {
      const auto value = static_cast<std::byte>(rng());
      std::fill_n(host.begin() + block.value * kBlockBytes, kBlockBytes, value);
      std::fill_n(expected_host.begin() + block.value * kBlockBytes, kBlockBytes, value);
    }
    const StepPlan plan = plans.front();
    plans.pop_front();
    std::vector<HostBlock> read = host_blocks_read(plan);
    const bool has_read = !read.empty();
    for (const StepPlan& other : under_way) {
      for (const HostBlock& written : host_blocks_written(other)) std::erase(read, written);
    }
    if (has_read) {
      ASSERT_TRUE(link.send(read).ok());
    }
    carry_out(plan, device, expected_host);
    under_way.push_back(plan);
  }
  ASSERT_TRUE(send_all(links.control(1), device, deadline_in_ms(20'000)).ok());
}

void follow(RankLinks& links, const std::deque<StepPlan>& plans, Memory device,
            int64_t max_message_bytes) {
  Memory host(kNumHostBlocks * kBlockBytes);
  HostBlockLink link(links, 0, blocks_in(host), max_message_bytes);
  for (const StepPlan& plan : plans) {
    if (!host_blocks_read(plan).empty()) {
      ASSERT_TRUE(link.receive().ok());
    }
    carry_out(plan, device, host);
    const std::vector<HostBlock> written = host_blocks_written(plan);
    if (!written.empty()) {
      ASSERT_TRUE(link.send(written).ok());
    }
  }
  Memory expected(device.size());
  ASSERT_TRUE(receive_all(links.control(0), expected, deadline_in_ms(20'000)).ok());
  EXPECT_EQ(device, expected);
}

TEST(HostBlockLink, BothRanksHaveWhatOneMemoryWouldHave) {
  std::mt19937 rng(1);
  std::deque<StepPlan> plans;
  for (int i = 0; i < 1000; ++i) plans.push_back(random_plan(rng));
  Memory device(kNumBlocks * kBlockBytes);
  for (std::byte& byte : device) byte = static_cast<std::byte>(rng());
  // All blocks in one message; two in each; one in each, although it takes more.
  for (const int64_t max_bytes : {HostBlockLink::kMaxMessageBytes, int64_t{30}, int64_t{1}}) {
    test::on_all_ranks(2, {}, [&](Result<std::unique_ptr<RankLinks>> links) {
      ASSERT_TRUE(links.ok()) << links.status().message();
      const bool leads = (*links)->rank() == 0;
      leads ? lead(**links, plans, device, max_bytes) : follow(**links, plans, device, max_bytes);
      test::part_in_peace(**links);
    });
  }
}

TEST(HostBlockLink, MessagesAreBounded) {
  test::on_all_ranks(2, {}, [&](Result<std::unique_ptr<RankLinks>> links) {
    ASSERT_TRUE(links.ok()) << links.status().message();
    Memory host(kNumHostBlocks * kBlockBytes);
    if ((*links)->rank() == 0) {
      HostBlockLink link(**links, 1, blocks_in(host), 30);
      std::vector<HostBlock> blocks;
      for (int32_t i = 1; i <= 5; ++i) blocks.push_back({KvPool::kAttention, BlockId(i)});
      EXPECT_TRUE(link.send(blocks).ok());
      test::part_in_peace(**links);
      return;
    }
    std::vector<size_t> sizes;
    for (int i = 0; i < 3; ++i) {
      Frame frame;
      EXPECT_TRUE(receive_frame((*links)->blocks(0), frame, deadline_in_ms(20'000)).ok());
      sizes.push_back(frame.payload.size());
    }
    EXPECT_EQ(sizes, (std::vector<size_t>{26, 26, 13}));
    test::part_in_peace(**links);
  });
}

TEST(HostBlockLink, WhatIsNoBlocksBreaksTheGroup) {
  for (const size_t size : {1u, 13u}) {  // part of a header; block 0
    test::on_all_ranks(2, {}, [&](Result<std::unique_ptr<RankLinks>> links) {
      ASSERT_TRUE(links.ok()) << links.status().message();
      Memory host(kNumHostBlocks * kBlockBytes);
      if ((*links)->rank() == 0) {
        HostBlockLink link(**links, 1, blocks_in(host));
        EXPECT_EQ(link.send({{KvPool::kAttention, BlockId(kNumHostBlocks)}}).code(),
                  StatusCode::kInternal);
        EXPECT_EQ(link.receive().code(), StatusCode::kUnavailable);
        EXPECT_NE((*links)->status().message().find("host block"), std::string::npos);
        return;
      }
      const Memory message(size);
      EXPECT_TRUE(send_frame((*links)->blocks(0), 48, message, deadline_in_ms(20'000)).ok());
      std::byte byte{};
      EXPECT_FALSE(receive_all((*links)->control(0), {&byte, 1}, deadline_in_ms(20'000)).ok());
    });
  }
}

}  // namespace
}  // namespace quire
