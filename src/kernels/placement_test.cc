// Compares the bytes of a weight that each thread touches with those to which its outputs' rows are
// packed.
#include "kernels/api/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/testing/quant_cases.h"
#include "kernels/testing/quant_test_rows.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;

void expect_ranges_are_the_weight(const WeightSpec& spec, int num_threads) {
  const int most_blocks = spec.n % 128 == 0 ? 2 : 1;  // halves of whole panels
  for (int num_blocks = 1; num_blocks <= most_blocks; ++num_blocks) {
    int64_t end = 0;
    for (int i = 0; i < num_blocks * num_threads; ++i) {
      const WorkRange bytes =
          weight_bytes_of(spec, {i / num_threads, num_blocks}, i % num_threads, num_threads);
      EXPECT_EQ(bytes.begin, end) << "range " << i << " of " << num_blocks << " blocks";
      EXPECT_GE(bytes.end, bytes.begin);
      end = bytes.end;
    }
    EXPECT_EQ(end, packed_weight_bytes(spec));
  }
}

// Returns how many bytes of `memory` outside `range` are not 0.
int64_t bytes_outside(const uint8_t* memory, int64_t num_bytes, WorkRange range) {
  int64_t count = 0;
  for (int64_t i = 0; i < num_bytes; ++i) {
    if (memory[i] != 0 && (i < range.begin || i >= range.end)) ++count;
  }
  return count;
}

TEST(Placement, RowsOfAThreadArePackedIntoItsBytes) {
  Host host(Isa::kPortable, 1);
  constexpr int kThreads = 3;
  struct Case {
    int64_t n, k;
    int num_blocks;
  };
  for (const auto& [n, k, num_blocks] :
       {Case{330, 128, 1}, Case{1000, 70, 1}, Case{64, 640, 1}, Case{1024, 70, 2}}) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      SCOPED_TRACE(::testing::Message() << n << " x " << k << " " << to_string(dtype));
      const WeightSpec spec{.n = n, .k = k, .dtype = dtype};
      expect_ranges_are_the_weight(spec, kThreads);
      const int64_t num_bytes = packed_weight_bytes(spec);
      for (int i = 0; i < num_blocks * kThreads; ++i) {
        const WeightBlock block{i / kThreads, num_blocks};
        const int thread = i % kThreads;
        // The outputs that linear() deals to the thread.
        const WorkRange mine = split_work(n / num_blocks, 32, thread, kThreads);
        if (mine.begin == mine.end) continue;
        std::vector<float> rows(static_cast<size_t>((mine.end - mine.begin) * k), 1.0f);
        Buffer memory(num_bytes);
        std::fill_n(static_cast<uint8_t*>(memory.data()), num_bytes, uint8_t{0});
        pack_weight_rows(host.stream, {spec, memory.data()},
                         {.rows = rows.data(),
                          .dtype = DType::kF32,
                          .first_row = block.index * (n / num_blocks) + mine.begin,
                          .num_rows = mine.end - mine.begin});
        EXPECT_EQ(bytes_outside(static_cast<const uint8_t*>(memory.data()), num_bytes,
                                weight_bytes_of(spec, block, thread, kThreads)),
                  0)
            << "thread " << thread << " of block " << block.index;
      }
    }
  }
}

TEST(Placement, QuantizedRowsOfAThreadArePackedIntoItsBytes) {
  Host host(Isa::kPortable, 1);
  constexpr int kThreads = 3;
  constexpr int64_t kN = 450, kK = 256;
  for (const kernel_cases::QuantFormat& format : kernel_cases::quant_formats()) {
    SCOPED_TRACE(format.name);
    const WeightSpec spec{.n = kN, .k = kK, .quant = format.spec};
    expect_ranges_are_the_weight(spec, kThreads);
    const kernel_test::QuantSource source(spec, 3);
    const int64_t num_bytes = packed_weight_bytes(spec);
    // The bytes after the last thread's panels belong to all outputs.
    for (int thread = 0; thread + 1 < kThreads; ++thread) {
      const WorkRange mine = split_work(kN, 64, thread, kThreads);
      Buffer before(num_bytes), after(num_bytes);
      auto* const a = static_cast<uint8_t*>(before.data());
      auto* const b = static_cast<uint8_t*>(after.data());
      std::fill_n(a, num_bytes, uint8_t{0});
      std::fill_n(b, num_bytes, uint8_t{0});
      pack_quant_rows(host.stream, {spec, a}, source.rows(mine.end, kN));
      pack_quant_rows(host.stream, {spec, b}, source.rows(mine.end, kN));
      pack_quant_rows(host.stream, {spec, b}, source.rows(mine.begin, mine.end));
      for (int64_t i = 0; i < num_bytes; ++i) b[i] ^= a[i];  // what its rows changed
      EXPECT_EQ(bytes_outside(b, num_bytes, weight_bytes_of(spec, {}, thread, kThreads)), 0)
          << "thread " << thread;
    }
  }
}

TEST(Placement, TouchingChangesNothing) {
  Host host(Isa::kPortable, 3);
  const WeightSpec spec{.n = 704, .k = 300};
  const int64_t num_bytes = packed_weight_bytes(spec);
  Buffer memory(num_bytes);
  auto* const bytes = static_cast<uint8_t*>(memory.data());
  for (int64_t i = 0; i < num_bytes; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 256);
  touch_weight(host.stream, {spec, bytes}, 2);
  for (int64_t i = 0; i < num_bytes; ++i) {
    ASSERT_EQ(bytes[i], static_cast<uint8_t>(i * 7 + i / 256)) << i;
  }
}

}  // namespace
}  // namespace quire
