#include "roofline/operator_tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "roofline/calibrate_operators.h"
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
  EXPECT_NE(message("gemm_dtype,m,n,k,latency\nbf16,0,1,1,1\n").find("above 0"), std::string::npos);
  EXPECT_NE(message("gemm_dtype,m,n,k,latency\nbf16,1,1,1,-3\n").find("above 0"),
            std::string::npos);
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
  // Outside: no further than what is nearest.
  EXPECT_LE(table.at({100, 0}), 15);
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

// Synthetic times from known constants are recovered.
TEST(FitGemm, RecoversConstants) {
  Hardware truth = h100();
  truth.gemm[1].compute_share = 0.6;
  truth.gemm[1].memory_share = 0.7;
  truth.gemm[1].launch_us = 9;
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
  EXPECT_NEAR(fitted.gemm[1].launch_us, 9, 1.5);
  for (GemmSample& sample : samples) sample.us /= 20;  // a wrong unit
  const Status refused = fit_gemm(samples, kBf16, fitted).status();
  EXPECT_NE(refused.message().find("faster than the limits"), std::string::npos);
}

// The published targets on real tables: half of the shapes fit, the other half judges.
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
