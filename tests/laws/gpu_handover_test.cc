// Law L4 for KV in files on GPUs: an answer that continues from KV which another engine computed
// has the bits of one engine's answer, whatever the ranks, stages and blocks of both. The file is
// linked twice: with the emulated device, whose copies run as late and as early as allowed, and
// with a GPU (skipped by name if there is none).
#include <gtest/gtest.h>

#include "exec/gpu/gpu_runner.h"
#include "kernels/cuda/test/test_device.h"
#include "kernels/cuda/test/test_rank_ops.h"
#include "ranks/gpu/gpu_engines.h"
#include "tests/laws/handover_system.h"

namespace quire {
namespace {

using namespace handover_test;

struct Gpus {
  int num_ranks = 1;
  int num_stages = 1;
  int32_t block_size = 16;
};

std::unique_ptr<Executor> make_executor(const TestModel& model, const Gpus& gpus) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < gpus.num_ranks * gpus.num_stages; ++i) {
    auto device = gpu_test::open_test_device();
    QUIRE_CHECK(device.ok(), "{}", device.status().message());
    devices.push_back(*std::move(device));
  }
  auto engines = make_gpu_engines(runner_options(model, gpus.block_size), {},
                                  {.devices = std::move(devices),
                                   .num_stages = gpus.num_stages,
                                   .ops = &gpu_test::test_rank_ops()});
  QUIRE_CHECK(engines.ok(), "{}", engines.status().message());
  return std::move(engines->executors.front());
}

class GpuHandovers : public ::testing::TestWithParam<TestModel> {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }
};

TEST_P(GpuHandovers, SameBitsBetweenUnlikeEngines) {
  const TestModel& model = GetParam();
  const Gpus one;
  const Text want = Server(make_executor(model, one), one.block_size, "").ask(make_request(1));
  ASSERT_EQ(std::ssize(want.token_ids), kOutputTokens);
  for (const auto& [giving, taking] :
       {std::pair(Gpus{1, 1, 16}, Gpus{1, 1, 32}), {Gpus{2, 1, 8}, Gpus{1, 2, 16}}}) {
    SCOPED_TRACE(fmt::format("{} ranks to {} stages", giving.num_ranks, taking.num_stages));
    if (giving.num_ranks > 1 && model.name != "llama") continue;
    const test::TempFolder folder;
    GenerationRequest request = make_request(1);
    {
      Server prefill(make_executor(model, giving), giving.block_size, folder.string(),
                     {.gives = true});
      const Text given = prefill.ask(first_leg(request));
      ASSERT_TRUE(given.status.ok()) << given.status.message();
      ASSERT_NE(given.handover, nullptr);
      EXPECT_EQ(given.handover->num_tokens, 64);
      request.handover = given.handover;
    }
    Server decode(make_executor(model, taking), taking.block_size, folder.string(),
                  {.takes = true});
    const Text text = decode.ask(request);
    expect_same_bits(text, want);
    EXPECT_EQ(text.num_cached_tokens, 64);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuHandovers,
                         ::testing::Values(TestModel{"llama"}, TestModel{"llama", "fp8"},
                                           TestModel{"deepseek_v2"}, TestModel{"jamba"}),
                         [](const auto& info) {
                           return info.param.name +
                                  (info.param.kv_dtype == "auto" ? "" : "_" + info.param.kv_dtype);
                         });

}  // namespace
}  // namespace quire
