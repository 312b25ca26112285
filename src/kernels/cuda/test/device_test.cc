// The guarantees of every device's queue.
#include "kernels/api/kv_cache.h"
#include "kernels/api/rows/read_bytes.h"
#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

class GpuDevice : public gpu_test::GpuTest {};

TEST_F(GpuDevice, KeepsTheFirstErrorButForItsLoss) {
  GpuStream& stream = device_->stream();
  stream.fail(internal_error("first"));
  stream.fail(internal_error("second"));
  EXPECT_EQ(device_->synchronize().message(), "first");
  EXPECT_TRUE(device_->synchronize().ok());
  stream.fail(internal_error("a kernel did not start"));
  stream.fail({StatusCode::kUnavailable, "lost"});
  stream.fail({StatusCode::kUnavailable, "still lost"});
  stream.fail(internal_error("another"));
  EXPECT_EQ(device_->synchronize().message(), "lost");
}

TEST_F(GpuDevice, ReplaysWhatWasCaptured) {
  const int32_t* from = upload(std::vector<int32_t>{1, 2, 3});
  int32_t* to = upload(std::vector<int32_t>{0, 0, 0});
  ASSERT_TRUE(device_->begin_capture().ok());
  device_->copy_on_device(to, from, 12);
  const auto graph = device_->end_capture();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(download<int32_t>(to, 3), (std::vector<int32_t>{0, 0, 0}));
  for (int i = 0; i < 2; ++i) {
    (*graph)->launch();
    EXPECT_EQ(download<int32_t>(to, 3), (std::vector<int32_t>{1, 2, 3}));
    device_->set_zero(to, 12);
  }
}

TEST_F(GpuDevice, AFailedCaptureLeavesTheQueueUsable) {
  int32_t* memory = upload(std::vector<int32_t>{7});
  ASSERT_TRUE(device_->begin_capture().ok());
  device_->set_zero(memory, 4);
  device_->stream().fail(internal_error("in the middle"));
  EXPECT_EQ(device_->end_capture().status().message(), "in the middle");
  EXPECT_EQ(download<int32_t>(memory, 1), (std::vector<int32_t>{7}));
}

// Copies beside the device's work run after what they wait for and before what waits for them, at
// any time in between.
TEST_F(GpuDevice, CopiesBesideItsWorkKeepTheirOrder) {
  for (const EmulatedCopies when :
       {EmulatedCopies::kLate, EmulatedCopies::kEarly, EmulatedCopies::kMixed}) {
    arenas_.clear();
    device_ = *gpu_test::open_test_device({.copies = when});
    auto copies = *device_->make_copy_stream();
    Arena pinned = *device_->allocate_pinned(64 * 4);
    auto* const host = pinned.allocate<int32_t>(8);
    std::fill_n(host, 8, 5);
    int32_t* const memory = upload(std::vector<int32_t>{1, 2, 3, 4});
    int32_t* const taken = upload(std::vector<int32_t>{0, 0});
    for (int round = 0; round < 20; ++round) {
      device_->set_zero(memory, 8);
      copies->wait_for_device();
      copies->copy_to_host(host, memory, 8);        // zeros
      copies->copy_to_device(memory, host + 4, 8);  // fives
      copies->hold_device();
      device_->copy_on_device(taken, memory, 8);
      EXPECT_EQ(download<int32_t>(taken, 2), (std::vector<int32_t>{5, 5}));
      EXPECT_EQ(host[0] + host[1], 0);
      std::fill_n(host, 2, 9);
    }
  }
}

// The driver's own error would be "invalid argument", without the name of the kernel.
TEST_F(GpuDevice, AKernelThatDoesNotFitSaysItsName) {
  device_ = *gpu_test::open_test_device({.shared_bytes_per_block = 1 << 10});
  if (device_->stream().emulated() == nullptr)
    GTEST_SKIP() << "SKIPPED: a real GPU has the shared memory that it has";
  const int64_t slot = 0;
  std::vector<uint16_t> values(256);
  qkv_to_cache(stream(), {.qkv = Activations(values.data(), DType::kBF16),
                          .qkv_stride = 24,
                          .rope_style = RopeStyle::kNone,
                          .slot_mapping = &slot,
                          .kv = {.key = values.data(),
                                 .value = values.data(),
                                 .block_stride = 64,
                                 .block_size = 8,
                                 .num_kv_heads = 1,
                                 .head_dim = 8,
                                 .order = KvOrder::kTokenMajor},
                          .num_tokens = 1,
                          .num_heads = 1});
  const Status status = device_->synchronize();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("qkv_kernel"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("got 1024"), std::string::npos) << status.message();
}

TEST_F(GpuDevice, ReadsEveryByteOnce) {
  for (const size_t count : {size_t{4}, size_t{100}, size_t{4096}, size_t{70004}}) {
    std::vector<uint32_t> words(count);
    uint32_t state = 7;
    uint32_t want = 0;
    for (uint32_t& word : words) want ^= word = state = state * 1664525u + 1013904223u;
    uint32_t* sums = upload(std::vector<uint32_t>(kReadSums, 0));
    read_bytes(stream(), {upload(words), static_cast<int64_t>(count * 4), sums});
    uint32_t sum = 0;
    for (const uint32_t part : download<uint32_t>(sums, kReadSums)) sum ^= part;
    EXPECT_EQ(sum, want) << count;
  }
}

}  // namespace
}  // namespace quire
