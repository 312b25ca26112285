// The device that tests run on. The test program is linked twice: with the kernels compiled for the
// CPU (always runs), and with the real backend (skipped by name where there is no GPU).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "device/device.h"
#include "device/emulated_device.h"
#include "kernels/ref/ref.h"
#include "tensor/activations.h"

namespace quire::gpu_test {

// The properties of an emulated device. They do not apply to a real GPU.
struct EmulatedGpu {
  int32_t compute_capability = 80;
  int32_t num_sms = 3;
  int32_t num_failing_captures = 0;  // how many captures fail, from the first one on
  int64_t shared_bytes_per_block = 227 << 10;
  EmulatedCopies copies = EmulatedCopies::kMixed;
};

// Opens the emulated device, or GPU 0.
Result<std::unique_ptr<Device>> open_test_device(const EmulatedGpu& emulated = {});

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }

  // Opens the device; the test is skipped if there is none.
  void open(const EmulatedGpu& emulated) {
    Result<std::unique_ptr<Device>> device = open_test_device(emulated);
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
    device_ = std::move(*device);
  }
  void open_hopper() {
    open({.compute_capability = 90});
    if (device_ != nullptr && device_->stream().info().compute_capability != 90)
      GTEST_SKIP() << "SKIPPED: not a GPU of compute capability 9.0";
  }

  Stream& stream() { return device_->stream(); }

  // Returns device memory with every byte 0xff, which is NaN in every float type.
  void* poisoned(int64_t num_bytes) { return upload(std::vector<uint8_t>(num_bytes, 0xff)); }

  template <typename T>
  T* upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    Result<Arena> arena = device_->allocate(bytes + 64);
    EXPECT_TRUE(arena.ok()) << arena.status().message();
    auto* memory = static_cast<T*>(arena->allocate_bytes(bytes));
    arenas_.push_back(std::move(*arena));
    device_->copy_to_device(memory, values.data(), bytes);
    EXPECT_TRUE(device_->synchronize().ok());
    return memory;
  }
  // Uploads the numbers, rounded to `dtype`.
  Activations upload_as(DType dtype, const std::vector<float>& values) {
    std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(size_bytes(dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      ref::store_element(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
    return {upload(bytes), dtype};
  }
  template <typename T>
  std::vector<T> download(const void* memory, int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    device_->copy_to_host(values.data(), memory, count * static_cast<int64_t>(sizeof(T)));
    const Status status = device_->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  // Downloads the numbers, widened to float.
  std::vector<float> download_floats(ConstActivations memory, int64_t count) {
    const auto bytes = download<uint8_t>(memory.data(), count * size_bytes(memory.dtype()));
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = ref::load_element(bytes.data(), memory.dtype(), i);
    return values;
  }

  std::unique_ptr<Device> device_;
  std::vector<Arena> arenas_;
};

// Returns x rounded to bf16 and widened again.
inline std::vector<float> rounded(std::vector<float> x) {
  for (float& value : x) value = to_float(to_bfloat16(value));
  return x;
}

}  // namespace quire::gpu_test
