#include <fmt/format.h>
#include <gmock/gmock.h>

#include "device/gpu_range.h"
#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

class Recorder final : public RangeHooks {
 public:
  void begin(const char* name, size_t index) override {
    events.push_back(index == static_cast<size_t>(-1) ? std::string(name)
                                                      : fmt::format("{} {}", name, index));
  }
  void end() override { events.emplace_back("end"); }
  std::vector<std::string> events;
};

class GpuRanges : public gpu_test::GpuTest {};

TEST_F(GpuRanges, NestAndTellTheHooksOfTheStream) {
  Recorder recorder;
  RangeHooks* before = device_->stream().range_hooks();
  device_->stream().set_range_hooks(&recorder);
  {
    const GpuRange layer(stream(), "layer", 3);
    const GpuRange op(stream(), "linear");
  }
  device_->stream().set_range_hooks(nullptr);
  { const GpuRange unheard(stream(), "norm"); }
  device_->stream().set_range_hooks(before);
  EXPECT_THAT(recorder.events, ElementsAre("layer 3", "linear", "end", "end"));
}

TEST(GpuRangesOnACpu, AreNothing) {
  ThreadTeam team = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
  HostStream stream(team, Isa::kPortable);
  const GpuRange range(stream, "norm");
}

}  // namespace
}  // namespace quire
