#include "roofline/model/operator_tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "roofline/calibrate/calibrate_operators.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

Hardware h100() { return find_hardware("h100-sxm").value(); }
const NumberFormat kBf16 = *parse_number_format("bf16");

TEST(OperatorTables, ReadsGemmRows) {
  const auto samples = read_gemm_csv(
      "framework,gemm_dtype,m,n,k,latency\nx,bfloat16,16,4096,1024,0.01\nx,odd,1,1,1,1\n", "g.csv");
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->size(), 1u);
  EXPECT_EQ(samples->front().work.n, 4096);
  EXPECT_DOUBLE_EQ(samples->front().us, 10);
}

TEST(OperatorTables, RefusesBrokenRows) {
  const auto message = [](const char* text) {
    return read_gemm_csv(text, "g.csv").status().message();
  };
  EXPECT_NE(message("").find("g.csv:1: expected a header"), std::string::npos);
  EXPECT_NE(message("m,n\n1\n").find("g.csv:2: expected 2 fields, got 1"), std::string::npos);
  EXPECT_NE(message("m\n1\n").find("expected a column gemm_dtype"), std::string::npos);
  EXPECT_NE(message("gemm_dtype,m,n,k,latency\nbf16,x,1,1,1\n").find("expected a number, got x"),
            std::string::npos);
  EXPECT_NE(message("gemm_dtype,m,n,k,latency\nbf16,0,1,1,1\n").find("from 1 to"),
            std::string::npos);
  EXPECT_NE(message("gemm_dtype,m,n,k,latency\nbf16,1,1,1,-3\n").find("above 0"),
            std::string::npos);
}

// Each names the file and the line in it once, whatever is wrong. The header and empty lines count.
TEST(OperatorTables, ErrorsSayWhichLine) {
  const std::string header = "gemm_dtype,m,n,k,latency\n";
  const std::string good = "bf16,1,1,1,1\n\n";
  for (const char* bad :
       {"bf16,x,1,1,1", "bf16,0,1,1,1", "bf16,1.5,1,1,1", "bf16,1,1,1,-3", "bf16,1,1,1,x"}) {
    const std::string message =
        read_gemm_csv(header + good + bad + "\n", "g.csv").status().message();
    EXPECT_TRUE(message.starts_with("g.csv:4: ")) << message;
    EXPECT_EQ(message.find("g.csv", 1), std::string::npos) << message;
  }
  EXPECT_EQ(read_gemm_csv("m\n1\n", "g.csv").status().message(),
            "g.csv:1: expected a column gemm_dtype");
}

TEST(ScatterTable, MeetsItsPointsAndPlanes) {
  std::vector<ScatterPoint> points;
  std::vector<double> values;
  for (int x = 0; x < 8; ++x) {
    for (int y = 0; y < 8; ++y) {
      points.push_back({double(x), double(y)});
      values.push_back(2.0 * x - y + 1);
    }
  }
  const ScatterTable table(2, points, values);
  for (size_t i = 0; i < points.size(); ++i) EXPECT_DOUBLE_EQ(table.at(points[i]), values[i]);
  EXPECT_NEAR(table.at({3.5, 2.25}), 2 * 3.5 - 2.25 + 1, 0.02);
  // A point outside gets at most the values of the nearest points.
  EXPECT_LE(table.at({100, 0}), 15);
}

// Values jump along one axis, as where kernels have variants, and change slowly along the other.
TEST(ScatterTable, LearnsWhichAxisIsLong) {
  std::vector<ScatterPoint> points;
  std::vector<double> values;
  const auto truth = [](double x, double y) { return (x < 1 ? -0.4 : 0.1) + 0.02 * y; };
  for (int x = 0; x < 9; ++x) {
    for (int y = 0; y < 11; ++y) {
      if ((5 * x + 3 * y) % 7 < 3) continue;  // kept for the test
      points.push_back({double(x), double(y)});
      values.push_back(truth(x, y));
    }
  }
  const ScatterTable table(2, points, values);
  double error = 0;
  int count = 0;
  for (int x = 0; x < 9; ++x) {
    for (int y = 0; y < 11; ++y) {
      if ((5 * x + 3 * y) % 7 >= 3) continue;
      error += std::abs(table.at({double(x), double(y)}) - truth(x, y));
      ++count;
    }
  }
  EXPECT_LT(error / count, 0.02);
}

TEST(ScatterTable, OnePoint) {
  const ScatterTable table(3, {{1, 2, 3}}, {5});
  EXPECT_DOUBLE_EQ(table.at({9, 9, 9}), 5);
}

TEST(OperatorTables, ScaleTheAnalyticTime) {
  const Hardware hardware = h100();
  const GemmWork work{.m = 64, .n = 4096, .k = 4096, .weights = kBf16};
  const double us = gemm_time(work, hardware).predicted_us;
  const OperatorTables tables(hardware, std::vector<GemmSample>{{work, 2 * us}}, {});
  KernelTime time = gemm_time(work, hardware);
  tables.apply(work, time);
  EXPECT_NEAR(time.predicted_us, 2 * us, 1e-9);
}

// Known constants are recovered from synthetic times.
TEST(FitGemm, RecoversConstants) {
  Hardware truth = h100();
  truth.gemm[KernelKind::kBf16].compute_share = 0.6;
  truth.gemm[KernelKind::kBf16].memory_share = 0.7;
  truth.gemm[KernelKind::kBf16].launch_us = 9;
  std::vector<GemmSample> samples;
  for (double m = 1; m <= 8192; m *= 4) {
    for (double n = 256; n <= 16384; n *= 2) {
      for (double k = 256; k <= 16384; k *= 2) {
        GemmSample sample{.work = {.m = m, .n = n, .k = k, .weights = kBf16}};
        sample.us = analytic_time(sample, truth).predicted_us;
        samples.push_back(sample);
      }
    }
  }
  Hardware fitted = h100();
  const Result<FitReport> report = fit_gemm(samples, kBf16, fitted);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_LT(report->test_mape, 3);
  EXPECT_NEAR(fitted.gemm[KernelKind::kBf16].launch_us, 9, 1.5);
  for (GemmSample& sample : samples) sample.us /= 20;  // a wrong unit
  const Status refused = fit_gemm(samples, kBf16, fitted).status();
  EXPECT_NE(refused.message().find("faster than the limits"), std::string::npos);
}

// A published list of a few dozen rows determines a few constants; the others are kept.
TEST(FitGemm, FewSamplesFitFewConstants) {
  Hardware truth = h100();
  truth.gemm[KernelKind::kBf16].memory_share = 0.5;
  std::vector<GemmSample> samples;
  for (const double m : {1, 32, 512, 4096}) {
    for (const double n : {1024, 2048, 4096}) {
      for (const double k : {1024, 2048, 4096, 8192}) {
        GemmSample sample{.work = {.m = m, .n = n, .k = k, .weights = kBf16}};
        sample.us = analytic_time(sample, truth).predicted_us;
        samples.push_back(sample);
      }
    }
  }
  Hardware fitted = h100();
  const GemmModel before = fitted.gemm_model(kBf16);
  const Result<FitReport> report = fit_gemm(samples, kBf16, fitted);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const GemmModel& after = fitted.gemm.at(KernelKind::kBf16);
  EXPECT_NEAR(after.memory_share, 0.5, 0.05);
  EXPECT_EQ(after.split_us, before.split_us);
  samples.resize(12);
  EXPECT_NE(fit_gemm(samples, kBf16, fitted).status().message().find("at least 16 usable"),
            std::string::npos);
}

// Constants per tensor and per block are separate: fitting one keeps the other.
TEST(FitGemm, KindsOfOneMathDoNotOverwriteEachOther) {
  const NumberFormat per_tensor = *parse_number_format("fp8");
  const NumberFormat per_block = *parse_number_format("fp8_block");
  Hardware hardware = h100();
  hardware.gemm.erase(KernelKind::kFp8Block);
  const GemmWork work{.m = 16, .n = 8192, .k = 8192, .weights = per_tensor};
  const double before_us = gemm_time(work, hardware).predicted_us;
  std::vector<GemmSample> samples;
  for (double m = 1; m <= 8192; m *= 4) {
    for (double n = 256; n <= 16384; n *= 2) {
      for (double k = 256; k <= 16384; k *= 2) {
        GemmSample sample{.work = {.m = m, .n = n, .k = k, .weights = per_block}};
        sample.us = 3 * analytic_time(sample, hardware).predicted_us;
        samples.push_back(sample);
      }
    }
  }
  ASSERT_TRUE(fit_gemm(samples, per_block, hardware).ok());
  EXPECT_EQ(gemm_time(work, hardware).predicted_us, before_us);
  GemmWork blocks = work;
  blocks.weights = per_block;
  EXPECT_GT(gemm_time(blocks, hardware).predicted_us, 2 * before_us);
}

// Times of products that were launched one by one are constant while the host's dispatch takes
// longer.
TEST(FitGemm, DispatchIsNotKernelTime) {
  const NumberFormat per_block = *parse_number_format("fp8_block");
  const Hardware truth = h100();
  std::vector<GemmSample> samples;
  for (double m = 1; m <= 32768; m *= 2) {
    for (double n = 256; n <= 16384; n *= 2) {
      for (double k = 256; k <= 16384; k *= 2) {
        GemmSample sample{.work = {.m = m, .n = n, .k = k, .weights = per_block}};
        sample.us = std::max(60.0, analytic_time(sample, truth).predicted_us);
        samples.push_back(sample);
      }
    }
  }
  Hardware fitted = h100();
  const FitReport report = fit_gemm(samples, per_block, fitted).value();
  EXPECT_GT(report.num_dispatched, 100);
  EXPECT_LT(report.test_mape, 3);
  EXPECT_LT(fitted.gemm_model(per_block).launch_us, 10);
}

TEST(CheckNotWorse, NamesWhatWouldBeWorse) {
  const std::vector<FitReport> before = {{.what = "gemm fp8", .test_mape = 17},
                                         {.what = "gemm fp8_block", .test_mape = 22}};
  const std::vector<FitReport> after = {{.what = "gemm fp8", .test_mape = 62},
                                        {.what = "gemm fp8_block", .test_mape = 20}};
  EXPECT_TRUE(check_not_worse(before, before).ok());
  const Status status = check_not_worse(after, before);
  EXPECT_NE(status.message().find("gemm fp8 62.0 % instead of 17.0 %"), std::string::npos)
      << status.message();
  EXPECT_EQ(status.message().find("fp8_block"), std::string::npos);
}

constexpr const char* kExpertsHeader =
    "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
    "distribution,latency\n";

// Qwen3-30B-A3B on two devices that share every expert: 64 tokens pick 8 of 128.
TEST(OperatorTables, ReadsExpertRows) {
  const auto samples = read_experts_csv(std::string(kExpertsHeader) +
                                            "bfloat16,64,2048,768,8,128,2,1,balanced,0.5\n"
                                            "odd,1,1,1,1,1,1,1,balanced,1\n"
                                            "fp8,64,2048,768,8,128,1,4,power_law_1.2,0.25\n",
                                        "moe.csv");
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->size(), 2u);
  const ExpertsWork& work = (*samples)[0].work;
  EXPECT_DOUBLE_EQ(work.rows, 512);
  EXPECT_DOUBLE_EQ(work.distinct, 128);  // even shares
  EXPECT_DOUBLE_EQ(work.foreign_rows, 0);
  EXPECT_DOUBLE_EQ(work.gate_up_rows, 768);  // gate and up, half of each
  EXPECT_DOUBLE_EQ(work.down_depth, 384);
  EXPECT_TRUE((*samples)[0].balanced);
  EXPECT_DOUBLE_EQ((*samples)[0].us, 500);
  EXPECT_GT((*samples)[1].work.rows, 128) << "the device with the most rows";
  EXPECT_FALSE((*samples)[1].balanced);
  EXPECT_DOUBLE_EQ((*samples)[1].work.foreign_rows, 512 - (*samples)[1].work.rows);
  EXPECT_LT((*samples)[1].work.distinct, 32 * (1 - std::pow(1 - 8.0 / 128, 64)));
  const KernelTime time = analytic_time((*samples)[0], h100());
  EXPECT_DOUBLE_EQ(time.flops, 2.0 * 512 * 3 * 2048 * 384);
  EXPECT_DOUBLE_EQ(time.weight_bytes, work.distinct * 3 * 2048 * 384 * 2);
  EXPECT_GE(time.predicted_us, time.bound_us);
}

// 256 rows over 32 experts are 8 each, in tiles of 32, as many as all rows would fill; rows of
// other devices are skipped.
TEST(ExpertsTime, IsTheFormulaByHand) {
  Hardware hardware = h100();
  const NumberFormat bf16 = *parse_number_format("bf16");
  hardware.experts[KernelKind::kBf16] = {.launch_us = 30,
                                         .expert_us = 0.5,
                                         .compute_share = 0.5,
                                         .memory_share = 0.8,
                                         .exponent = 1,
                                         .row_share = 0.25,
                                         .foreign_share = 0.2,
                                         .foreign_us = 7};
  const ExpertsWork work{.rows = 256,
                         .distinct = 32,
                         .foreign_rows = 768,
                         .hidden_size = 2048,
                         .gate_up_rows = 1536,
                         .down_depth = 768,
                         .weights = bf16};
  const double compute_us = 2 * 1024.0 * 3 * 2048 * 768 / (0.5 * 989e12) * 1e6;
  const double memory_us = 32.0 * 3 * 2048 * 768 * 2 / (0.8 * 3350e9) * 1e6;
  const double own_us = 256.0 * (3 * 2048 + 4 * 768) * 2 / (0.25 * 3350e9) * 1e6;
  const double foreign_us = 768.0 * (2048 + 3 * 768) * 2 / (0.2 * 3350e9) * 1e6;
  EXPECT_NEAR(experts_time(work, hardware).predicted_us,
              37 + 0.5 * 32 + compute_us + memory_us + own_us + foreign_us, 1e-6);
}

// A format without constants of its own uses those of the same unit.
TEST(ExpertsTime, ConstantsComeFromTheFormatOrItsMath) {
  Hardware hardware = h100();
  hardware.experts.clear();
  hardware.experts[KernelKind::kFp8Block].launch_us = 77;
  hardware.experts[KernelKind::kBf16].launch_us = 55;
  EXPECT_EQ(hardware.experts_model(*parse_number_format("fp8")).launch_us, 77);
  EXPECT_EQ(hardware.experts_model(*parse_number_format("mxfp4")).launch_us, 55);
  const Result<Hardware> again = parse_hardware(to_json(hardware), "again");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->experts.size(), 2u);
  EXPECT_EQ(again->experts_model(*parse_number_format("fp8_block")).launch_us, 77);
}

TEST(OperatorTables, ReadsCollectiveRows) {
  const auto samples = read_collective_csv(
      "op_name,allreduce_dtype,num_gpus,message_size,latency,backend\n"
      "all_reduce,bfloat16,4,1024,0.005,vllm_graph\nall_reduce,bfloat16,4,1024,0.02,vllm_eager\n"
      "broadcast,bfloat16,4,1024,0.005,vllm_graph\n",
      "ar.csv");
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->size(), 1u);
  EXPECT_EQ(samples->front().num_devices, 4);
  EXPECT_DOUBLE_EQ(samples->front().bytes, 2048);
  EXPECT_DOUBLE_EQ(samples->front().us, 5);
}

TEST(OperatorTables, RefusesBrokenRowsOfExpertsAndCollectives) {
  const auto experts = [](const std::string& row) {
    return read_experts_csv(kExpertsHeader + row, "moe.csv").status().message();
  };
  EXPECT_NE(experts("bfloat16,0,1,1,1,1,1,1,balanced,1\n").find("moe.csv"), std::string::npos);
  EXPECT_NE(experts("bfloat16,1,1,1,9,8,1,1,balanced,1\n").find("up to num_experts"),
            std::string::npos);
  EXPECT_NE(experts("bfloat16,1,1,1,1,1,1,1,balanced,0\n").find("above 0"), std::string::npos);
  const std::string skewed = experts("bfloat16,1,1,1,1,1,1,1,power_law_x,1\n");
  EXPECT_TRUE(skewed.starts_with("moe.csv:2: distribution: expected")) << skewed;
  const Status status =
      read_collective_csv(
          "op_name,nccl_dtype,num_gpus,message_size,latency\nall_reduce,half,2.5,1,1\n", "nccl.csv")
          .status();
  EXPECT_NE(status.message().find("nccl.csv:2: num_gpus"), std::string::npos) << status.message();
}

TEST(FitCollectives, RecoversConstants) {
  Hardware truth = h100();
  truth.collective = {.alpha_us = 9, .alpha_per_device_us = 1.5, .share = 0.5};
  std::vector<CollectiveSample> samples;
  for (const int32_t devices : {2, 4, 8}) {
    for (double bytes = 256; bytes < 1e9; bytes *= 1.7) {
      CollectiveSample sample{.num_devices = devices, .bytes = bytes};
      sample.us = analytic_time(sample, truth).predicted_us;
      samples.push_back(sample);
    }
  }
  Hardware fitted = h100();
  const Result<FitReport> report = fit_collectives(samples, fitted);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_LT(report->test_mape, 3);
  EXPECT_NEAR(fitted.collective.alpha_us, 9, 1);
}

// A kernel that takes twice the time for half the bytes has no tuned tiles.
TEST(FitExperts, NamesAKernelThatNoServerWouldChoose) {
  const NumberFormat narrow = *parse_number_format("fp8");
  for (const double times : {0.7, 2.2}) {
    const Hardware start = h100();
    std::vector<ExpertsSample> samples;
    for (const double width : {512, 768, 1024, 1536, 2048, 3072}) {
      for (double rows = 64; rows < 1e5; rows *= 2) {
        ExpertsSample sample{.work = {.rows = rows,
                                      .distinct = 64,
                                      .hidden_size = 4096,
                                      .gate_up_rows = 2 * width,
                                      .down_depth = width,
                                      .weights = {16, MathType::kBf16}},
                             .balanced = true};
        sample.us = analytic_time(sample, start).predicted_us;
        samples.push_back(sample);
        sample.work.weights = narrow;
        sample.us *= times;
        samples.push_back(sample);
      }
    }
    Hardware fitted = start;
    const Result<FitReport> report = fit_experts(samples, narrow, fitted);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->untuned, times > 1);
    EXPECT_NEAR(report->times_bf16, times, 1e-9);
    EXPECT_EQ(fitted.experts.contains(kernel_kind(narrow)), times < 1);
    fitted = start;
    ASSERT_TRUE(fit_experts(samples, narrow, fitted, {.fit_untuned = true}).ok());
    EXPECT_TRUE(fitted.experts.contains(kernel_kind(narrow)));
  }
}

// The built-in constants without fitting: with those of small all-reduces, NCCL's tables were 37 %
// off.
TEST(FitCollectives, BuiltInConstantsKnowTheTablesOfH100) {
  QUIRE_REQUIRE_SHARED(dir, "perf/aiconfigurator/h100_sxm");
  for (const char* name : {"nccl_perf.csv.gz", "custom_allreduce_perf.csv.gz"}) {
    SCOPED_TRACE(name);
    const auto samples = read_collective_csv(test::read_file(dir / name), name);
    ASSERT_TRUE(samples.ok()) << samples.status().message();
    Hardware hardware = h100();
    const auto report = fit_collectives(*samples, hardware, {.judge_only = true});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_LT(report->test_mape, 12);
    EXPECT_LT(std::abs(report->test_bias), 5);
  }
}

TEST(CollectiveTime, TheFasterOfTwoKernelsRuns) {
  Hardware hardware = h100();
  const auto us = [&](double bytes, int32_t devices) {
    return collective_time(Collective::kAllReduce, devices, bytes, hardware).predicted_us;
  };
  const auto library_us = [&](double bytes, int32_t devices) {
    return library_collective_time(Collective::kAllReduce, devices, bytes, hardware).predicted_us;
  };
  EXPECT_LT(us(16384, 8), 0.5 * library_us(16384, 8));
  EXPECT_EQ(us(1e9, 8), library_us(1e9, 8));
  EXPECT_EQ(us(16384, 16), library_us(16384, 16)) << "not across nodes";
  EXPECT_EQ(us(16384, 1), 0);
  // An all-to-all sends to all devices at once: more devices do not make a small one slower.
  const auto exchange_us = [&](int32_t devices) {
    return collective_time(Collective::kAllToAll, devices, 0, hardware).predicted_us;
  };
  EXPECT_EQ(exchange_us(2), exchange_us(8));
}

// The published targets on real tables: one half of the shapes is fitted, the other half tests.
TEST(Calibration, H100Tables) {
  QUIRE_REQUIRE_SHARED(dir, "perf/aiconfigurator/h100_sxm");
  Hardware hardware = h100();
  const FitOptions quick{.max_fit_samples = 800};
  const auto gemm = read_gemm_csv(test::read_file(dir / "gemm_perf.csv.gz"), "gemm").value();
  const FitReport product = fit_gemm(gemm, kBf16, hardware, quick).value();
  EXPECT_LE(product.test_mape, 8);
  EXPECT_LE(product.table_test_mape, 5);
  const auto generation =
      read_attention_csv(test::read_file(dir / "generation_attention_perf.csv.gz"), "decode")
          .value();
  const FitReport decode = fit_decode_attention(generation, kBf16, hardware, quick).value();
  EXPECT_LE(decode.test_mape, 15);
  EXPECT_LE(decode.table_test_mape, 5);
  const auto context =
      read_attention_csv(test::read_file(dir / "context_attention_perf.csv.gz"), "prefill").value();
  const FitReport prefill = fit_prefill_attention(context, kBf16, hardware, quick).value();
  EXPECT_LE(prefill.test_mape, 15);
  EXPECT_LE(prefill.table_test_mape, 5);
}

}  // namespace
}  // namespace quire
