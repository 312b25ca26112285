#include "facade/model_executor.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ModelExecutor, TheCpuTakesWhatAGpuRefusesWhereNobodyAskedForAGpu) {
  EngineArgs args;
  for (const char* device : {"auto", "cuda", "cpu"}) {
    args.device = device;
    const bool may_choose = args.device == "auto";
    EXPECT_EQ(goes_to_cpu(args, unimplemented("DoRA")), may_choose) << device;
    EXPECT_EQ(goes_to_cpu(args, resource_exhausted("memory")), may_choose) << device;
    EXPECT_FALSE(goes_to_cpu(args, invalid_argument("r: expected 8, got 0"))) << device;
    EXPECT_FALSE(goes_to_cpu(args, not_found("no such folder"))) << device;
  }
}

}  // namespace
}  // namespace quire
