#include "exec/gpu/gpu_upload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

class GpuUploadTest : public gpu_test::GpuTest {};

// Uploads pieces of random sizes through small buffers, and overwrites the sources at once.
TEST_F(GpuUploadTest, CopiesThatAreQueuedSeeWhatWasThere) {
  constexpr int64_t kBytes = int64_t{3} << 20;
  for (const int64_t buffer_bytes : {int64_t{64}, int64_t{4096}, int64_t{2} << 20}) {
    SCOPED_TRACE(buffer_bytes);
    ThreadTeam team = ThreadTeam::create({.num_threads = 2, .pin = false}).value();
    GpuUpload upload(*device_, team, buffer_bytes);
    std::mt19937 rng(7);
    std::vector<uint8_t> want(static_cast<size_t>(kBytes));
    for (uint8_t& byte : want) byte = static_cast<uint8_t>(rng());
    auto* memory = static_cast<uint8_t*>(poisoned(kBytes));
    int64_t at = 0;
    const int64_t end = buffer_bytes == 64 ? kBytes / 64 : kBytes;  // every buffer costs a wait
    while (at < end) {
      const int64_t size = std::min<int64_t>(end - at, 1 + rng() % (buffer_bytes * 3));
      std::vector<uint8_t> source(want.begin() + at, want.begin() + at + size);
      upload.copy(memory + at, source.data(), size);
      std::fill(source.begin(), source.end(), uint8_t{0xee});
      at += size;
    }
    ASSERT_TRUE(upload.finish().ok());
    const auto got = download<uint8_t>(memory, end);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), static_cast<size_t>(end)), 0);
    // Works again after finish().
    const std::vector<uint8_t> again(100, uint8_t{3});
    upload.copy(memory, again.data(), 100);
    ASSERT_TRUE(upload.finish().ok());
    EXPECT_EQ(download<uint8_t>(memory, 100), again);
  }
}

// finish() returns an error of the device, once.
TEST_F(GpuUploadTest, ErrorsComeOutOfFinish) {
  ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
  GpuUpload upload(*device_, team);
  auto* memory = static_cast<uint8_t*>(poisoned(64));
  const std::vector<uint8_t> bytes(64, uint8_t{1});
  upload.copy(memory, bytes.data(), 64);
  device_->stream().fail(internal_error("lost"));
  EXPECT_EQ(upload.finish().message(), "lost");
}

}  // namespace
}  // namespace quire
