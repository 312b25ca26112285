#include "roofline/hardware/hardware.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Hardware, EveryBuiltInFileIsValid) {
  const std::vector<std::string> names = known_hardware();
  EXPECT_GE(names.size(), 13u);
  for (const std::string& name : names) {
    const Result<Hardware> hardware = find_hardware(name);
    ASSERT_TRUE(hardware.ok()) << hardware.status().message();
    EXPECT_EQ(hardware->name, name);
    EXPECT_FALSE(hardware->provenance.source.empty()) << name;
    EXPECT_GT(hardware->memory_bytes, 0) << name;
    EXPECT_EQ(hardware->price_per_hour > 0, !hardware->price_source.empty()) << name;
  }
}

TEST(Hardware, NamesIgnoreCaseAndPunctuation) {
  EXPECT_EQ(find_hardware("H100 SXM").value().name, "h100-sxm");
  EXPECT_EQ(find_hardware("rtx_4090").value().name, "rtx-4090");
  const Status unknown = find_hardware("h1000").status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_NE(unknown.message().find("h100-sxm"), std::string::npos);
  EXPECT_TRUE(find_hardware("h100-sxmm").status().message().ends_with("did you mean h100-sxm?"));
}

TEST(Hardware, JsonRoundTrip) {
  Hardware hardware = find_hardware("h100-sxm").value();
  hardware.host.graph_sizes = {1, 2, 4};
  hardware.gemm[KernelKind::kBf16].shares = {{1, 0.9}, {64, 0.7}};
  hardware.rule = CombinationRule::kMarginal;
  hardware.provenance.num_samples = 42;
  const std::string text = to_json(hardware);
  const Hardware again = parse_hardware(text, "again").value();
  EXPECT_EQ(to_json(again), text);
  EXPECT_EQ(again.host.graph_sizes, hardware.host.graph_sizes);
  EXPECT_EQ(again.gemm.at(KernelKind::kBf16).shares.size(), 2u);
}

TEST(Hardware, OnlyLimitsAreNeeded) {
  const Hardware hardware =
      parse_hardware(R"({"peak_tflops": {"bf16": 100}, "memory_gb_per_s": 1000, "memory_gb": 40})",
                     "user.json")
          .value();
  EXPECT_EQ(hardware.gemm_model({}).compute_share, GemmModel().compute_share);
  EXPECT_EQ(hardware.peak(MathType::kFp8), 100e12);  // runs as bf16
}

TEST(Hardware, OneAdmissionTimeForAllGpus) {
  for (const std::string& name : known_hardware()) {
    if (name.starts_with("cpu-")) continue;
    EXPECT_EQ(find_hardware(name).value().host.admission_us, HostModel().admission_us) << name;
  }
}

TEST(Hardware, NarrowTypesFallBack) {
  const Hardware a100 = find_hardware("a100-sxm").value();
  EXPECT_EQ(a100.effective_math(MathType::kFp8), MathType::kBf16);
  EXPECT_EQ(a100.effective_math(MathType::kInt8), MathType::kInt8);
  EXPECT_EQ(find_hardware("h100-sxm").value().effective_math(MathType::kFp4), MathType::kFp8);
}

TEST(Hardware, KindsOfWeightsHaveConstantsOfTheirOwn) {
  const Hardware h100 = find_hardware("h100-sxm").value();
  const auto share = [&](const char* name) {
    return h100.gemm_model(*parse_number_format(name)).compute_share;
  };
  EXPECT_NE(share("fp8"), share("fp8_block"));
  EXPECT_EQ(share("fp8"), share("fp8_channel"));  // it has none and uses those of fp8
  EXPECT_EQ(share("int4"), share("bf16"));
  // Groups of 128 weights are int4, whatever their zero points add.
  EXPECT_EQ(kernel_kind({4.15625, MathType::kBf16}), kernel_kind(*parse_number_format("int4")));
  EXPECT_EQ(kernel_kind({8.25, MathType::kFp8}), KernelKind::kFp8Block);
}

TEST(Hardware, MisspeltKeysAndZeroRatesAreRefused) {
  const auto message = [](const std::string& fields) {
    const std::string text =
        R"({"peak_tflops": {"bf16": 100}, "memory_gb_per_s": 1000, "memory_gb": 40)" + fields + "}";
    return parse_hardware(text, "user.json").status().message();
  };
  EXPECT_EQ(message(""), "");
  EXPECT_EQ(message(R"(, "memory_gbs": 80)"),
            "user.json: unknown field memory_gbs; did you mean memory_gb?");
  EXPECT_EQ(message(R"(, "gemm": {"fp8": {"lauch_us": 3}})"),
            "user.json: gemm: fp8: unknown field lauch_us; did you mean launch_us?");
  EXPECT_EQ(message(R"(, "host": {"step": 3})"), "user.json: host: unknown field step");
  EXPECT_NE(message(R"(, "gemm": {"fp9": {}})").find("unknown number format fp9"),
            std::string::npos);
  EXPECT_NE(message(R"(, "experts": {"bf16": {}, "bfloat16": {}})").find("two entries for bf16"),
            std::string::npos);
  EXPECT_NE(parse_hardware(R"({"peak_tflops": {"bf16": 0}, "memory_gb_per_s": 1})", "user.json")
                .status()
                .message()
                .find("got 0"),
            std::string::npos);
}

TEST(Hardware, TheLastOfTwoKeysDoesNotWinSilently) {
  const auto message = [](const char* fields) {
    const std::string text =
        R"({"peak_tflops": {"bf16": 100}, "memory_gb_per_s": 1000, "memory_gb": 40)" +
        std::string(fields) + "}";
    return parse_hardware(text, "user.json").status().message();
  };
  EXPECT_EQ(message(R"(, "memory_gb_per_s": 2)"), "user.json: two entries for memory_gb_per_s");
  EXPECT_EQ(message(R"(, "host": {"step_us": 3, "step_us" : 4})"),
            "user.json: two entries for host: step_us");
  EXPECT_EQ(
      message(R"(, "description": "a \" \\", "host": {"request_us": 3}, "name": "memory_gb:")"),
      "");
  EXPECT_EQ(message(R"(, "gemm": {"bf16": {"launch_us": 3}, "int8": {"launch_us": 3}})"), "");
}

TEST(Hardware, MemoryIsNeeded) {
  EXPECT_EQ(
      parse_hardware(R"({"peak_tflops": {"bf16": 100}, "memory_gb_per_s": 1000})", "user.json")
          .status()
          .message(),
      "user.json: unnamed: memory_gb: expected a number above 0");
}

TEST(Hardware, RefusalsNameTheField) {
  const auto message = [](const char* text) {
    return parse_hardware(text, "user.json").status().message();
  };
  EXPECT_EQ(message("{}"), "user.json: peak_tflops: expected an object, got nothing");
  EXPECT_NE(message(R"({"peak_tflops": {"bf16": 100}})").find("memory_gb_per_s"),
            std::string::npos);
  EXPECT_NE(message(R"({"peak_tflops": {"bf16": -1}, "memory_gb_per_s": 1})").find("got -1"),
            std::string::npos);
  EXPECT_NE(message(R"({"peak_tflops": {"bf16": 1}, "memory_gb_per_s": 1, "rule": "best"})")
                .find("rule: expected sum"),
            std::string::npos);
  EXPECT_NE(message(R"({"peak_tflops": {"bf16": 1}, "memory_gb_per_s": 1, "memory_gb": 1,
      "gemm": {"bf16": {"shares": [[4, 0.5], [2, 0.5]]}}})")
                .find("ascending"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
