#include "roofline/model/mixed_launches.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

const std::string kHeader =
    "chunk,kv_prefill,n_decode,kv_decode,us,num_heads,num_key_value_heads,head_dim,kv_cache_"
    "dtype\n";

// Rows of LLMServingSim's profile of Llama-3.1-8B on an RTX PRO 6000 (one layer, vLLM 0.19).
const std::string kMeasured = kHeader +
                              "16,0,128,1024,671.672,32,8,128,bfloat16\n"
                              "16,0,128,2048,1541.35,32,8,128,bfloat16\n"
                              "64,0,32,1024,168.054,32,8,128,bfloat16\n"
                              "256,0,64,1024,325.111,32,8,128,bfloat16\n"
                              "512,0,128,512,450.188,32,8,128,bfloat16\n"
                              "1024,0,64,2048,661.122,32,8,128,bfloat16\n"
                              "2048,0,128,1024,1031.17,32,8,128,bfloat16\n";

TEST(MixedLaunches, OneLaunchExplainsWhatAddingDoesNot) {
  const auto samples = read_mixed_csv(kMeasured, "mixed.csv");
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->size(), 7u);
  EXPECT_EQ((*samples)[4].chunk.num_tokens, 512);
  EXPECT_EQ((*samples)[4].num_decodes, 128);
  const MixedReport report = judge_mixed(*samples, find_hardware("rtx-pro-6000").value());
  EXPECT_EQ(report.num_samples, 7);
  EXPECT_LT(report.joined_mape, 15);
  EXPECT_LT(report.apart_bias, -25) << "decodes lose their kernel in a shared launch";
}

TEST(MixedLaunches, RefusesBrokenRows) {
  const auto message = [](const std::string& row) {
    return read_mixed_csv(kHeader + row, "m.csv").status().message();
  };
  EXPECT_NE(message("16,0,0,5,1,32,8,128,bf16\n").find("m.csv:2: n_decode"), std::string::npos);
  EXPECT_NE(message("1,0,1,5,1,32,8,128,bf16\n").find("chunk"), std::string::npos);
  EXPECT_NE(message("16,0,1,5,0,32,8,128,bf16\n").find("us: expected"), std::string::npos);
  EXPECT_NE(message("16,0,1,5,nan,32,8,128,bf16\n").find("m.csv"), std::string::npos);
  EXPECT_NE(message("16,0,1,5,1,32,0,128,bf16\n").find("num_key_value_heads"), std::string::npos);
  EXPECT_NE(read_mixed_csv("chunk\n1\n", "m.csv").status().message().find("kv_cache_dtype"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
