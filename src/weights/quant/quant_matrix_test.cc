// Every layout on disk is compared bit by bit with weights that were computed without Quire
// (tools/make_quant_vectors.py), and every contradiction that a file can contain is refused.
#include "weights/quant/quant_matrix.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/support/test_data.h"
#include "weights/testing/quant_test_support.h"

namespace quire {
namespace {

using test::CheckpointBuilder;

std::filesystem::path vectors_dir() { return test::source_dir() / "tests" / "goldens" / "quant"; }

float e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -size : size;
}

float number(const std::byte* at, ScaleType type, int64_t index) {
  const std::byte* from = at + index * scale_bytes(type);
  uint16_t half;
  float value;
  switch (type) {
    case ScaleType::kF32:
      std::memcpy(&value, from, 4);
      return value;
    case ScaleType::kF16:
      std::memcpy(&half, from, 2);
      return to_float(float16{half});
    case ScaleType::kBF16:
      std::memcpy(&half, from, 2);
      return to_float(bfloat16{half});
    case ScaleType::kI8:
      return static_cast<float>(static_cast<int8_t>(*from));
    case ScaleType::kE8M0:
      return std::ldexp(1.0f, std::to_integer<int>(*from) - 127);
    case ScaleType::kE4M3:
      return e4m3(std::to_integer<uint8_t>(*from));
    default:
      return static_cast<float>(std::to_integer<int>(*from));
  }
}

float codebook_value(const QuantSpec& spec, uint8_t code) {
  constexpr float kIq4Nl[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
  if (spec.codebook == Codebook::kIq4Nl) return kIq4Nl[code];
  constexpr float kIq1[] = {-9, -1, 7, -7, 1, 9};
  if (spec.codebook == Codebook::kIq1) return kIq1[code];
  const float sign = code & 8 ? -1.0f : 1.0f;
  constexpr float kIq2[] = {8, 25, 43};
  if (spec.codebook == Codebook::kIq2) return sign * kIq2[code & 7];
  constexpr float kIq3Xxs[] = {4, 12, 20, 28, 36, 44, 52, 62};
  if (spec.codebook == Codebook::kIq3Xxs) return sign * kIq3Xxs[code & 7];
  if (spec.codebook == Codebook::kIq3S) return sign * static_cast<float>(2 * (code & 7) + 1);
  if (spec.codebook == Codebook::kLinear) return static_cast<float>(code - spec.offset);
  if (spec.codebook == Codebook::kE2M1) {
    constexpr float kSizes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return code & 8 ? -kSizes[code & 7] : kSizes[code];
  }
  QUIRE_CHECK(spec.codebook == Codebook::kE4M3);
  return e4m3(code);
}

// Returns one row as floats in the order of the inputs, each step rounded as quant_spec.h says.
std::vector<float> row_values(const QuantMatrix& matrix, const QuantRowTarget& row) {
  const QuantSpec& spec = matrix.spec();
  std::vector<float> values(static_cast<size_t>(matrix.columns()));
  for (int64_t k = 0; k < matrix.columns(); ++k) {
    const int64_t g = k / spec.group_size;
    float scale = number(row.scales, spec.scale_type, g);
    float min = 0.0f;
    if (row.mins != nullptr) min = number(row.mins, spec.scale_type, g);
    if (spec.has_two_levels()) {
      const int64_t s = k / spec.super_group_size;
      scale = number(row.super_scales, spec.super_scale_type, s) * scale;
      if (row.mins != nullptr) min = number(row.super_mins, spec.super_scale_type, s) * min;
    }
    float c = codebook_value(spec, row.codes[k]);
    if (row.zeros != nullptr) c -= static_cast<float>(row.zeros[g]);
    const float value = spec.zero_kind == ZeroKind::kMin ? scale * c - min : scale * c;
    const auto order = matrix.column_order();
    const int64_t at = order.empty() ? k : order[static_cast<size_t>(k)];
    values[static_cast<size_t>(at)] = value;
  }
  return values;
}

void expect_exact(const QuantMatrix& matrix, const RawTensor& expected) {
  constexpr int64_t kAtOnce = 7;  // rows; not aligned to any word, block or group
  QuantRowBuffer rows(matrix.spec(), matrix.columns(), kAtOnce);
  for (int64_t first = 0; first < matrix.rows(); first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, matrix.rows() - first);
    const Status status = matrix.read_rows(first, count, rows.at(0));
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t row = 0; row < count; ++row) {
      const std::vector<float> values = row_values(matrix, rows.at(row));
      for (int64_t k = 0; k < matrix.columns(); ++k) {
        float wanted;
        std::memcpy(&wanted, expected.data.data() + ((first + row) * matrix.columns() + k) * 4, 4);
        ASSERT_EQ(values[static_cast<size_t>(k)], wanted) << "row " << first + row << ", " << k;
      }
    }
  }
}

class QuantVectors : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantVectors, DecodeExactly) {
  const auto dir = vectors_dir() / GetParam();
  const auto files = ModelFiles::open(dir.string());
  ASSERT_TRUE(files.ok()) << files.status().message();
  const auto source = TensorSource::open(*files);
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto config = QuantConfig::parse(*files->text("config.json"), "config.json");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const RawTensor* expected = source->find("expected");
  ASSERT_NE(expected, nullptr);
  ASSERT_TRUE(is_quantized_module(*source, "m"));
  const auto matrix =
      open_quant_matrix(*source, *config, "m", {expected->shape[0], expected->shape[1]});
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  EXPECT_EQ((*matrix)->tensors().size() + 1, source->tensors().size()) << "every tensor is claimed";
  const Status taken =
      check_quant({.n = (*matrix)->rows(), .k = (*matrix)->columns(), .quant = (*matrix)->spec()});
  EXPECT_TRUE(taken.ok()) << taken.message();
  expect_exact(**matrix, *expected);
}

std::vector<std::string> vector_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(vectors_dir())) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, QuantVectors, ::testing::ValuesIn(vector_names()),
                         [](const auto& info) { return info.param; });

// Reads every quantized matrix of a GGUF file and compares it with the expected values beside it.
void expect_exact_file(const std::string& name, int num_expected) {
  const auto files = ModelFiles::open((vectors_dir() / name).string());
  ASSERT_TRUE(files.ok()) << files.status().message();
  const auto source = TensorSource::open(*files);
  ASSERT_TRUE(source.ok()) << source.status().message();
  int num_types = 0;
  for (const RawTensor& tensor : source->tensors()) {
    if (!tensor.name.ends_with(".weight")) continue;
    SCOPED_TRACE(tensor.name);
    const std::string module = tensor.name.substr(0, tensor.name.size() - 7);
    ASSERT_TRUE(is_quantized_module(*source, module));
    const auto matrix =
        open_quant_matrix(*source, QuantConfig(), module, {tensor.shape[0], tensor.shape[1]});
    ASSERT_TRUE(matrix.ok()) << matrix.status().message();
    const Status taken = check_quant(
        {.n = (*matrix)->rows(), .k = (*matrix)->columns(), .quant = (*matrix)->spec()});
    EXPECT_TRUE(taken.ok()) << taken.message();
    expect_exact(**matrix, *source->find(module + ".expected"));
    ++num_types;
  }
  EXPECT_EQ(num_types, num_expected);
}

TEST(QuantBlocks, DecodeExactly) { expect_exact_file("blocks.gguf", 12); }
TEST(QuantBlocks, GridsDecodeExactly) { expect_exact_file("grids.gguf", 9); }

// A Lie is a golden with one thing changed, and the error that opening or reading it must return.
class Lie {
 public:
  explicit Lie(const std::string& name) {
    const auto files = ModelFiles::open((vectors_dir() / name).string());
    QUIRE_CHECK(files.ok());
    const auto source = TensorSource::open(*files);
    builder_.add_all(*source);
    config_ = std::string(*files->text("config.json"));
    const auto& shape = source->find("expected")->shape;
    shape_ = {shape[0], shape[1]};
  }
  Lie& shape(std::string_view tensor, std::vector<int64_t> shape) {
    auto& t = builder_.at(tensor);
    int64_t before = 1, after = 1;
    for (const int64_t n : t.shape) before *= n;
    for (const int64_t n : shape) after *= n;
    t.bytes.resize(t.bytes.size() / static_cast<size_t>(before) * static_cast<size_t>(after));
    t.shape = std::move(shape);
    return *this;
  }
  Lie& type(std::string_view tensor, std::string type) {
    builder_.at(tensor).type = std::move(type);
    return *this;
  }
  Lie& bytes(std::string_view tensor, size_t at, const std::string& bytes) {
    builder_.at(tensor).bytes.replace(at, bytes.size(), bytes);
    return *this;
  }
  Lie& remove(std::string_view tensor) {
    builder_.remove(tensor);
    return *this;
  }
  Lie& config(std::string_view from, std::string_view to) {
    const size_t at = config_.find(from);
    QUIRE_CHECK(at != std::string::npos, "no {}", from);
    config_.replace(at, from.size(), to);
    return *this;
  }
  Lie& model(MatrixShape shape) {
    shape_ = shape;
    return *this;
  }

  std::string message() {
    const ModelFiles files = builder_.open();
    const auto source = TensorSource::open(files);
    if (!source.ok()) return source.status().message();
    const auto config = QuantConfig::parse(config_, "config.json");
    if (!config.ok()) return config.status().message();
    const auto matrix = open_quant_matrix(*source, *config, "m", shape_);
    if (!matrix.ok()) return matrix.status().message();
    QuantRowBuffer rows((*matrix)->spec(), (*matrix)->columns(), (*matrix)->rows());
    return (*matrix)->read_rows(0, (*matrix)->rows(), rows.at(0)).message();
  }

 private:
  CheckpointBuilder builder_;
  std::string config_;
  MatrixShape shape_;
};

void expect_says(Lie lie, std::string_view part) {
  const std::string message = lie.message();
  EXPECT_NE(message.find(part), std::string::npos) << "got: " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

const std::string kNanHalf("\x00\x7e", 2);
const std::string kInfFloat("\x00\x00\x80\x7f", 4);

TEST(QuantLies, Awq) {
  EXPECT_EQ(Lie("awq_g32").message(), "");
  expect_says(Lie("awq_g32").shape("m.qweight", {96, 2}),
              "'m.qweight': expected shape [96, 3], got [96, 2]");
  expect_says(Lie("awq_g32").type("m.qweight", "U32"), "expected element type I32, got U32");
  expect_says(Lie("awq_g32").shape("m.qzeros", {3, 2}), "'m.qzeros': expected shape [3, 3]");
  expect_says(Lie("awq_g32").shape("m.scales", {2, 24}), "'m.scales': expected shape [3, 24]");
  expect_says(Lie("awq_g32").type("m.scales", "I16"), "expected scales of F32, F16 or BF16");
  expect_says(Lie("awq_g32").bytes("m.scales", 6, kNanHalf), "expected finite scales");
  expect_says(Lie("awq_g32").remove("m.qzeros"), "no tensor 'm.qzeros'");
  expect_says(Lie("awq_g32").config("32", "16"), "'m.qzeros': expected shape [6, 3], got [3, 3]");
  expect_says(Lie("awq_g32").config("32", "0"), "group_size: expected -1 or a positive number");
  expect_says(Lie("awq_g32").config("\"bits\": 4", "\"bits\": 8"), "expected 4 for awq, got 8");
  expect_says(Lie("awq_g32").config("gemm", "gemv"), "expected gemm for awq, got 'gemv'");
  expect_says(Lie("awq_g32").config("\"awq\"", "\"gptq\""), "'m.qweight': expected shape [12, 24]");
  expect_says(Lie("awq_g32").model({28, 96}),
              "expected outputs in a multiple of 8 for awq, got 28");
  expect_says(Lie("awq_g32").model({24, 64}), "'m.qweight': expected shape [64, 3], got [96, 3]");
}

TEST(QuantLies, BitNet) {
  EXPECT_EQ(Lie("bitnet").message(), "");
  expect_says(Lie("bitnet").shape("m.weight", {4, 160}), "'m.weight': expected shape [2, 320]");
  expect_says(Lie("bitnet").shape("m.weight_scale", {1, 1}),
              "'m.weight_scale': expected shape [1]");
  expect_says(Lie("bitnet").bytes("m.weight", 0, "\xff"), "expected codes 0, 1 and 2");
  expect_says(Lie("bitnet").bytes("m.weight_scale", 0, std::string(2, '\0')), "a number above 0");
  expect_says(Lie("bitnet_divided").bytes("m.weight_scale", 0, std::string(2, '\0')), "above 0");
  expect_says(Lie("bitnet").remove("m.weight_scale"), "no tensor 'm.weight_scale'");
  expect_says(Lie("bitnet").model({6, 320}), "expected a multiple of 4 outputs for bitnet, got 6");
  expect_says(Lie("bitnet").config("offline", "online"), "quantization_mode: expected offline");
  expect_says(Lie("bitnet").config("autobitlinear", "linear"),
              "linear_class: expected bitlinear or autobitlinear, got 'linear'");
  expect_says(Lie("bitnet").config("\"offline\"", "\"offline\", \"use_rms_norm\": true"),
              "use_rms_norm: expected false, got true");
}

TEST(QuantLies, Gptq) {
  EXPECT_EQ(Lie("gptq4_asym_order").message(), "");
  expect_says(Lie("gptq4_sym").shape("m.qweight", {9, 24}), "expected shape [12, 24], got [9, 24]");
  expect_says(Lie("gptq4_sym").config("\"bits\": 4", "\"bits\": 3"),
              "'m.qweight': expected shape [9, 24], got [12, 24]");
  expect_says(Lie("gptq4_sym").config("\"bits\": 4", "\"bits\": 5"), "expected 2, 3, 4 or 8");
  expect_says(Lie("gptq4_sym").config("\"bits\": 4", "\"bits\": \"4\""),
              "bits: expected an integer in [1, 16], got \"4\"");
  expect_says(Lie("gptq4_sym").shape("m.qzeros", {3, 4}), "'m.qzeros': expected shape [3, 3]");
  expect_says(Lie("gptq4_sym").shape("m.scales", {3, 23}), "'m.scales': expected shape [3, 24]");
  expect_says(Lie("gptq4_sym").bytes("m.scales", 2, kNanHalf), "expected finite scales");
  expect_says(Lie("gptq4_sym").shape("m.g_idx", {95}), "'m.g_idx': expected shape [96], got [95]");
  expect_says(Lie("gptq4_asym_order").bytes("m.g_idx", 0, std::string("\x09\x00\x00\x00", 4)),
              "'m.g_idx': expected groups in [0, 3), got 9");
  expect_says(Lie("gptq4_asym_order").bytes("m.g_idx", 0, std::string("\xff\xff\xff\xff", 4)),
              "expected groups in [0, 3), got -1");
  expect_says(Lie("gptq4_sym").bytes("m.g_idx", 0, std::string("\x01\x00\x00\x00", 4)),
              "expected 32 inputs in group 0, got 31");
  expect_says(Lie("gptq4_asym_order").remove("m.g_idx"), "no tensor 'm.g_idx'");
  expect_says(Lie("gptq4_sym").config("\"gptq\",\n \"bits\"", "\"gptqq\",\n \"bits\""),
              "quant_method: expected awq, gptq");
  expect_says(Lie("gptq4_sym_v2").config("gptq_v2", "marlin"), "got 'marlin'");
  expect_says(Lie("gptq4_sym").model({24, 100}), "expected inputs in a multiple of 32 for gptq");
}

TEST(QuantLies, Packed) {
  EXPECT_EQ(Lie("packed4_asym").message(), "");
  expect_says(Lie("packed4_sym").shape("m.weight_packed", {24, 13}), "expected shape [24, 12]");
  expect_says(Lie("packed4_sym").config("\"num_bits\": 4", "\"num_bits\": 8"),
              "'m.weight_packed': expected shape [24, 24], got [24, 12]");
  expect_says(Lie("packed4_sym").config("\"num_bits\": 4", "\"num_bits\": 40"),
              "num_bits: expected an integer in [1, 8], got 40");
  expect_says(Lie("packed4_sym").config("\"group_size\": 32", "\"group_size\": 64"),
              "'m.weight_scale': expected shape [24, 2], got [24, 3]");
  expect_says(Lie("packed4_sym").bytes("m.weight_shape", 0, "\x19"),
              "expected [24, 96], got [25, 96]");
  expect_says(Lie("packed4_sym").shape("m.weight_shape", {3}), "expected two integers");
  expect_says(Lie("packed4_sym").type("m.weight_packed", "F32"),
              "expected element type I32, got F32");
  expect_says(Lie("packed4_sym").bytes("m.weight_scale", 0, kNanHalf), "expected finite scales");
  expect_says(Lie("packed4_asym").shape("m.weight_zero_point", {2, 3}),
              "'m.weight_zero_point': expected shape [3, 3], got [2, 3]");
  expect_says(Lie("packed4_asym").remove("m.weight_zero_point"), "no tensor 'm.weight_zero_point'");
  expect_says(Lie("packed4_order").remove("m.weight_g_idx"), "no tensor 'm.weight_g_idx'");
  expect_says(Lie("packed4_sym").config("pack-quantized", "marlin-24"), "got 'marlin-24'");
  expect_says(Lie("packed4_sym").config("\"Linear\"", "\"re:(\""), "regular expression '('");
  expect_says(Lie("packed4_sym").config("\"Linear\"", "\"other\""),
              "module 'm': its tensors are quantized, but quantization_config says nothing of it");
  expect_says(Lie("packed4_sym").config("\"group\"", "\"token\""), "got 'token'");
  expect_says(Lie("packed4_sym").config("\"int\"", "\"float\""),
              "'m.weight_packed': expected element type U8, got I32");
  expect_says(Lie("packed4_sym")
                  .config("\"num_bits\": 4", "\"num_bits\": 6")
                  .config("\"int\"", "\"float\""),
              "expected 4 or 8 for floats, got 6");
}

TEST(QuantLies, Fp4) {
  for (const char* name : {"nvfp4", "nvfp4_modelopt", "mxfp4", "mxfp8"}) {
    EXPECT_EQ(Lie(name).message(), "") << name;
  }
  expect_says(Lie("nvfp4").shape("m.weight_packed", {24, 47}),
              "'m.weight_packed': expected shape [24, 48], got [24, 47]");
  expect_says(Lie("nvfp4").type("m.weight_packed", "I8"), "expected element type U8, got I8");
  expect_says(Lie("nvfp4").shape("m.weight_scale", {24, 5}),
              "'m.weight_scale': expected shape [24, 6], got [24, 5]");
  expect_says(Lie("nvfp4").type("m.weight_scale", "F8_E5M2"),
              "expected element type F8_E4M3, got F8_E5M2");
  expect_says(Lie("nvfp4").bytes("m.weight_scale", 7, "\x7f"), "expected finite scales");
  expect_says(Lie("nvfp4").remove("m.weight_global_scale"), "no tensor 'm.weight_global_scale'");
  expect_says(Lie("nvfp4").shape("m.weight_global_scale", {2}), "expected one F32, got 2 of F32");
  expect_says(Lie("nvfp4").bytes("m.weight_global_scale", 0, kInfFloat),
              "expected a positive number, got inf");
  expect_says(Lie("nvfp4").bytes("m.weight_global_scale", 0, std::string(4, '\0')),
              "expected a positive number, got 0");
  expect_says(Lie("nvfp4").config("\"group_size\": 16", "\"group_size\": 32"),
              "'m.weight_scale': expected shape [24, 3], got [24, 6]");
  expect_says(Lie("nvfp4").config("\"group_size\": 16", "\"group_size\": -1"), "symmetric groups");
  expect_says(Lie("nvfp4").model({24, 95}), "expected symmetric groups of an even number");
  expect_says(Lie("nvfp4_modelopt").remove("m.weight_scale_2"), "no tensor 'm.weight_scale_2'");
  expect_says(Lie("nvfp4_modelopt").config("NVFP4", "W4A8_AWQ"), "expected FP8 or NVFP4");
  expect_says(Lie("mxfp4").bytes("m.weight_scale", 7, "\xff"), "expected finite scales");
  expect_says(Lie("mxfp4").shape("m.weight_scale", {24, 2}), "expected shape [24, 3], got [24, 2]");
  expect_says(Lie("mxfp8").bytes("m.weight_scale", 7, "\xff"), "expected finite scales");
}

TEST(QuantLies, Bytes) {
  EXPECT_EQ(Lie("fp8_block").message(), "");
  expect_says(Lie("fp8_block").shape("m.weight_scale", {2, 1}),
              "'m.weight_scale': expected shape [2, 2], got [2, 1]");
  expect_says(Lie("fp8_block").config("16,", "8,"), "expected shape [3, 2], got [2, 2]");
  expect_says(Lie("fp8_block").config("16,", "0,"), "expected [rows, columns], got [0,64]");
  expect_says(Lie("fp8_block").bytes("m.weight_scale", 0, kInfFloat), "expected finite scales");
  expect_says(Lie("fp8_block").bytes("m.weight", 5, "\xff"), "expected finite values, got NaN");
  expect_says(Lie("fp8_channel_bf16").shape("m.weight_scale", {12, 2}),
              "'m.weight_scale': expected shape [24, 1], got [12, 2]");
  expect_says(Lie("fp8_tensor").remove("m.weight_scale"), "no tensor 'm.weight_scale'");
  expect_says(Lie("fp8_tensor").type("m.weight", "F8_E5M2"),
              "expected element type F8_E4M3, got F8_E5M2");
  expect_says(Lie("int8_dynamic").type("m.weight", "F8_E4M3"), "expected element type I8");
  expect_says(Lie("int8_dynamic").config("\"num_bits\": 8", "\"num_bits\": 4"),
              "expected I8 in bytes, got num_bits 4");
  expect_says(Lie("int8_dynamic").config("\"symmetric\": true", "\"symmetric\": false"),
              "no tensor 'm.weight_zero_point'");
  expect_says(Lie("fp8_method_tensor").config("static", "often"), "got 'often'");
  expect_says(Lie("fp8_method_tensor").config("fp8", "fp9"), "got 'fp9'");
}

}  // namespace
}  // namespace quire
