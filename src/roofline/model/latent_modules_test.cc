#include "roofline/model/latent_modules.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

const std::string kHeader =
    "model,kv_cache_dtype,gemm_type,num_heads,batch_size,isl,step,latency\n";

TEST(LatentModules, ReadsRowsAndJudgesThemByKind) {
  const auto samples =
      read_latent_modules_csv(kHeader +
                                  "deepseek-ai/DeepSeek-V3,bfloat16,bfloat16,128,32,1,4096,0.3057\n"
                                  "deepseek-ai/DeepSeek-V3,fp8,fp8_block,16,1,4096,0,1.5\n"
                                  "somebody/else,bfloat16,bfloat16,128,8,1,2047,0.25\n",
                              "mla.csv");
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->size(), 2u);
  EXPECT_EQ((*samples)[0].context, 4096);
  EXPECT_DOUBLE_EQ((*samples)[1].us, 1500);
  const Hardware h100 = find_hardware("h100-sxm").value();
  const NumberFormat bf16 = *parse_number_format("bfloat16");
  const auto report = judge_latent_modules(*samples, bf16, bf16, h100);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->num_samples, 1);
  EXPECT_DOUBLE_EQ(report->mape, std::abs(report->bias));
  // Only the weights: 7168 x (1536 + 576) + 1536 x 128 x 192 + 512 x 128 x 256 + 128 x 128 x 7168.
  const double weights_us =
      (7168.0 * 2112 + 1536.0 * 24576 + 512.0 * 32768 + 16384.0 * 7168) * 2 / 3350e9 * 1e6;
  EXPECT_GT(report->bias, 100 * (weights_us / 305.7 - 1));
  EXPECT_LT(report->mape, 15);
  EXPECT_FALSE(judge_latent_modules(*samples, bf16, *parse_number_format("int8"), h100).ok());
}

TEST(LatentModules, RefusesMalformedRowsByName) {
  for (const char* row : {"deepseek-ai/DeepSeek-V3,bfloat16,bfloat16,0,8,1,1,0.25\n",
                          "deepseek-ai/DeepSeek-V3,bfloat16,bfloat16,1,8,1,-1,0.25\n",
                          "deepseek-ai/DeepSeek-V3,bfloat16,bfloat16,1,8,1,1,0\n",
                          "deepseek-ai/DeepSeek-V3,bfloat16,bfloat16,1,8,1.5,1,1\n",
                          "deepseek-ai/DeepSeek-V3,bfloat16,bfloat16,1,100000,100000,1,1\n"}) {
    const auto samples = read_latent_modules_csv(kHeader + row, "mla.csv");
    ASSERT_FALSE(samples.ok()) << row;
    EXPECT_NE(samples.status().message().find("mla.csv"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
