// The emulation of copies, barriers and products detects kernels that read or write too early.
#include "kernels/cuda/emulation/async_unit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/emulation/hopper.h"
#include "kernels/cuda/hopper_code.h"

namespace quire::cuda {
namespace {

using emulation::Block;

constexpr int kThreads = 128;
constexpr int kShared = 32 << 10;

void run_block(const std::function<void()>& body) {
  Block::run({.num_threads = kThreads, .shared_bytes = kShared}, 1, body);
}

uint64_t* barrier() { return reinterpret_cast<uint64_t*>(ptx::shared_memory() + kShared - 64); }

TEST(AsyncUnit, CopiesLandWhenTheyAreWaitedForAndNotBefore) {
  std::vector<uint8_t> source(256, 7);
  run_block([&] {
    uint8_t* shared = ptx::shared_memory();
    if (ptx::thread_index() == 0) {
      ptx::init_barrier(barrier(), 1);
      ptx::copy_bulk(shared, source.data(), 256, barrier());
      EXPECT_EQ(shared[3], 0xff);
      ptx::arrive_expecting(barrier(), 256);
      EXPECT_EQ(shared[3], 0xff);
    }
    ptx::sync_threads();
    ptx::wait_barrier(barrier(), 0);
    EXPECT_EQ(shared[255], 7);
  });
}

TEST(AsyncUnit, BarriersOfSomeThreadsLetThemTakeTurns) {
  std::vector<int> order;
  run_block([&] {
    const int group = ptx::thread_index() / 64;
    if (group == 1) ptx::arrive_named(1, kThreads);  // group 0 goes first
    for (int turn = 0; turn < 3; ++turn) {
      ptx::sync_named(1 + group, kThreads);
      if (ptx::thread_index() % 64 == 0) order.push_back(group);
      ptx::arrive_named(2 - group, kThreads);
    }
  });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 0, 1, 0, 1}));
}

// A warpgroup product of random operands in panels, with both orders of b, and a from registers or
// memory.
TEST(AsyncUnit, ProductsAreOfWhatDescriptorsName) {
  const auto element = [](int row, int k) {
    return static_cast<float>((row * 7 + k * 3) % 11 - 5);
  };
  const auto at = [](uint8_t* panel, int row, int column) -> uint16_t& {
    return *reinterpret_cast<uint16_t*>(panel + panel_offset(row, column / 8, 64) + column % 8 * 2);
  };
  run_block([&] {
    uint8_t* a = ptx::shared_memory();
    uint8_t* b = a + (8 << 10);
    const int thread = ptx::thread_index();
    const int lane = thread % 32;
    for (int i = thread; i < 64 * 64; i += kThreads) {
      at(a, i / 64, i % 64) = to_bfloat16(element(i / 64, i % 64)).bits;
      at(b, i / 64, i % 64) = to_bfloat16(element(i % 64, i / 64)).bits;
    }
    ptx::sync_threads();
    constexpr int kStep = 2;  // along k, from 32 on
    float plain[8][4] = {};
    float by_rows[8][4] = {};
    const uint64_t a_place = panel_descriptor(ptx::shared_address(a) + kStep * 32);
    ptx::multiply_panels(plain, a_place, panel_descriptor(ptx::shared_address(b) + kStep * 32),
                         true);
    uint32_t registers[4];
    ptx::load_matrices(registers,
                       a + panel_offset(thread / 32 * 16 + lane % 16, kStep * 2 + lane / 16, 64));
    ptx::multiply_panel<true>(by_rows, registers,
                              panel_descriptor(ptx::shared_address(b) + kStep * 16 * 128), false);
    ptx::commit_products();
    EXPECT_TRUE(std::isnan(plain[0][0]));  // not done before it is waited for
    ptx::wait_products<0>();
    ptx::pin_registers(plain);
    for (int n = 0; n < 8; ++n) {
      for (int i = 0; i < 4; ++i) {
        const int row = thread / 32 * 16 + lane / 4 + i / 2 * 8;
        const int column = 8 * n + 2 * (lane % 4) + i % 2;
        float want_plain = 0;
        float want_by_rows = 0;
        for (int k = kStep * 16; k < kStep * 16 + 16; ++k) {
          want_plain += element(row, k) * element(k, column);
          want_by_rows += element(row, k) * element(column, k);
        }
        EXPECT_EQ(plain[n][i], want_plain);
        EXPECT_EQ(by_rows[n][i], want_by_rows);
      }
    }
  });
}

TEST(AsyncUnitDeathTest, FindsSumsThatAreUsedBeforeTheyAreWaitedFor) {
  EXPECT_DEATH(run_block([] {
                 float d[8][4] = {};
                 ptx::multiply_panels(d, panel_descriptor(0), panel_descriptor(8192), true);
                 ptx::commit_products();
                 ptx::pin_registers(d);
               }),
               "before it was waited for");
  EXPECT_DEATH(run_block([] {
                 if (ptx::thread_index() == 0) ptx::init_barrier(barrier(), 2);
                 ptx::sync_threads();
                 ptx::wait_barrier(barrier(), 0);
               }),
               "every thread waits");
}

}  // namespace
}  // namespace quire::cuda
