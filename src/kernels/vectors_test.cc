// Compares the kernels with published vectors: ONNX's operator tests and outputs of vLLM's own
// operators.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <numeric>
#include <sstream>

#include "base/float8.h"
#include "kernels/testing/test_support.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;
using kernel_test::Buffer;
using kernel_test::Host;

std::string decode_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto at =
        std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
            .find(c);
    if (at == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(at);
    if (++count % 4 != 1)
      bytes.push_back(static_cast<char>(bits >> (6 - 2 * ((count - 1) % 4)) & 0xff));
  }
  return bytes;
}

template <typename T>
std::vector<T> elements(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// --- ONNX: one JSON object per line ---

std::vector<json::object> onnx_cases(const std::filesystem::path& path) {
  std::vector<json::object> cases;
  std::istringstream lines(test::read_file(path));
  for (std::string line; std::getline(lines, line);) cases.push_back(json::parse(line).as_object());
  return cases;
}

template <typename T = float>
std::vector<T> tensor(const json::object& c, const char* side, size_t index) {
  const auto& t = c.at(side).as_array().at(index).as_object();
  return elements<T>(decode_base64(std::string_view(t.at("raw_b64").as_string())));
}
std::vector<int64_t> shape(const json::object& c, const char* side, size_t index) {
  return json::value_to<std::vector<int64_t>>(c.at(side).as_array().at(index).at("shape"));
}
double attribute(const json::object& c, const char* name, double otherwise) {
  const auto& attributes = c.at("nodes").as_array().at(0).at("attrs").as_object();
  const auto* value = attributes.if_contains(name);
  return value != nullptr ? value->to_number<double>() : otherwise;
}

// Converts fp8 e4m3fn and e5m2 from and to 32-bit and 16-bit floats, in both overflow modes. All
// NaN codes count as equal.
TEST(OnnxVectors, Float8Casts) {
  QUIRE_REQUIRE_SHARED(dir, "numeric/onnx");
  const std::map<std::string, Float8> formats = {{"FLOAT8E4M3FN", Float8::kE4M3},
                                                 {"FLOAT8E5M2", Float8::kE5M2}};
  const auto floats_of = [](const json::object& c, const char* side) {
    const auto& t = c.at(side).as_array().at(0).as_object();
    if (t.at("dtype").as_string() == "FLOAT") return tensor(c, side, 0);
    std::vector<float> values;
    for (const uint16_t bits : tensor<uint16_t>(c, side, 0)) {
      values.push_back(to_float(float16{bits}));
    }
    return values;
  };
  const auto type_of = [](const json::object& c, const char* side) {
    return std::string(c.at(side).as_array().at(0).at("dtype").as_string());
  };
  const auto is_float = [](const std::string& type) {
    return type == "FLOAT" || type == "FLOAT16";
  };
  int checked = 0;
  for (const auto& c : onnx_cases(dir / "cast.jsonl.gz")) {
    const std::string from = type_of(c, "inputs");
    const std::string to = type_of(c, "outputs");
    if (is_float(from) && formats.contains(to)) {
      const Float8 format = formats.at(to);
      const auto overflow =
          attribute(c, "saturate", 1) != 0 ? Float8Overflow::kSaturate : Float8Overflow::kSpecial;
      const auto x = floats_of(c, "inputs");
      const auto want = tensor<uint8_t>(c, "outputs", 0);
      for (size_t i = 0; i < x.size(); ++i) {
        const uint8_t got = float_to_float8(format, x[i], overflow);
        const bool nan = std::isnan(float8_to_float(format, want[i]));
        EXPECT_EQ(std::isnan(float8_to_float(format, got)), nan) << to << " " << x[i];
        if (!nan) {
          EXPECT_EQ(got, want[i]) << to << " " << x[i];
        }
      }
      ++checked;
    } else if (formats.contains(from) && is_float(to)) {
      const auto codes = tensor<uint8_t>(c, "inputs", 0);
      const auto want = floats_of(c, "outputs");
      for (size_t i = 0; i < codes.size(); ++i) {
        const float got = float8_to_float(formats.at(from), codes[i]);
        EXPECT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i]))) << from << " " << i;
      }
      ++checked;
    }
  }
  EXPECT_EQ(checked, 12);
}

TEST(OnnxVectors, Norms) {
  QUIRE_REQUIRE_SHARED(dir, "numeric/onnx");
  for (const bool rms : {true, false}) {
    const auto cases = onnx_cases(dir / (rms ? "rms_norm.jsonl.gz" : "layer_norm.jsonl.gz"));
    ASSERT_EQ(cases.size(), 19u);
    for (const auto& c : cases) {
      const auto x = tensor(c, "inputs", 0);
      const auto weight = tensor(c, "inputs", 1);
      const auto want = tensor(c, "outputs", 0);
      const auto size = static_cast<int64_t>(weight.size());  // the axes from `axis` on, flattened
      const auto n = static_cast<int64_t>(x.size());
      const auto eps = static_cast<float>(attribute(c, "epsilon", 1e-5));
      for (const Isa isa : kernel_test::isas()) {
        Host host(isa);
        auto got = kernel_test::poisoned(n);
        if (rms) {
          RmsNormParams p{.x = x.data(), .weight = weight.data(), .out = got.data(), .eps = eps};
          p.num_tokens = n / size;
          p.hidden_size = size;
          rms_norm(host.stream, p);
        } else {
          const auto bias = tensor(c, "inputs", 2);
          LayerNormParams p{.x = x.data(),
                            .weight = weight.data(),
                            .bias = bias.data(),
                            .out = got.data(),
                            .eps = eps};
          p.num_tokens = n / size;
          p.hidden_size = size;
          layer_norm(host.stream, p);
        }
        // ONNX computes these in float too: a few roundings of results below 4.
        ASSERT_TRUE(kernel_test::close(got.data(), want.data(), n, 2e-6))
            << std::string_view(c.at("name").as_string());
      }
    }
  }
}

TEST(OnnxVectors, Casts) {
  QUIRE_REQUIRE_SHARED(dir, "numeric/onnx");
  int checked = 0;
  for (const auto& c : onnx_cases(dir / "cast.jsonl.gz")) {
    const std::string_view name(c.at("name").as_string());
    for (const auto& [type, dtype] :
         {std::pair{"BFLOAT16", DType::kBF16}, {"FLOAT16", DType::kF16}}) {
      if (name == "test_cast_FLOAT_to_" + std::string(type)) {
        const auto x = tensor(c, "inputs", 0);
        auto buffer = kernel_test::stored(dtype, x);
        const auto want = tensor<uint16_t>(c, "outputs", 0);
        ASSERT_EQ(std::memcmp(buffer.data(), want.data(), want.size() * 2), 0) << name;
        ++checked;
      } else if (name == "test_cast_" + std::string(type) + "_to_FLOAT") {
        const auto bits = tensor<uint16_t>(c, "inputs", 0);
        const auto want = tensor(c, "outputs", 0);
        for (size_t i = 0; i < want.size(); ++i) {
          const float got = ref::load_element(bits.data(), dtype, static_cast<int64_t>(i));
          if (std::isnan(want[i])) {
            ASSERT_TRUE(std::isnan(got)) << name;
          } else {
            ASSERT_TRUE(kernel_test::same_bits(&got, &want[i], 1)) << name;
          }
        }
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 4);
}

// Rotates `heads` heads of every token with given tables through the op, with one KV head that is
// not used.
std::vector<float> rotate(Stream& stream, const std::vector<float>& q, int32_t heads,
                          int32_t head_dim, const std::vector<float>& cos,
                          const std::vector<float>& sin, int32_t rotary_dim, RopeStyle style) {
  const int64_t row = int64_t{heads} * head_dim;
  const int64_t tokens = static_cast<int64_t>(q.size()) / row;
  std::vector<float> qkv;
  for (int64_t t = 0; t < tokens; ++t) {
    qkv.insert(qkv.end(), q.begin() + t * row, q.begin() + (t + 1) * row);
    qkv.resize(qkv.size() + 2 * static_cast<size_t>(head_dim), 0.0f);
  }
  const int64_t block = 16 * head_dim;
  Buffer key((tokens / 16 + 1) * block * 4), value((tokens / 16 + 1) * block * 4);
  std::vector<int64_t> slots(static_cast<size_t>(tokens));
  std::iota(slots.begin(), slots.end(), 0);
  QkvToCacheParams p;
  p.qkv = qkv.data();
  p.qkv_stride = row + 2 * head_dim;
  p.rope_style = style;
  p.rotary_dim = rotary_dim;
  p.cos = cos.data();
  p.sin = sin.data();
  p.slot_mapping = slots.data();
  p.kv = {key.data(), value.data(), DType::kF32, block, 16, 1, head_dim};
  p.num_tokens = tokens;
  p.num_heads = heads;
  qkv_to_cache(stream, p);
  std::vector<float> out;
  for (int64_t t = 0; t < tokens; ++t) {
    out.insert(out.end(), qkv.begin() + t * p.qkv_stride, qkv.begin() + t * p.qkv_stride + row);
  }
  return out;
}

TEST(OnnxVectors, Rope) {
  QUIRE_REQUIRE_SHARED(dir, "numeric/onnx");
  const auto cases = onnx_cases(dir / "rope.jsonl.gz");
  ASSERT_EQ(cases.size(), 8u);
  for (const auto& c : cases) {
    const auto x = tensor(c, "inputs", 0);
    const auto want = tensor(c, "outputs", 0);
    const auto dims = shape(c, "inputs", 0);
    const bool heads_first = dims.size() == 4;  // [B, H, S, D], else [B, S, H * D]
    constexpr int32_t kHeads = 4;
    constexpr int32_t kHeadDim = 8;
    const int64_t seq = heads_first ? dims[2] : dims[1];
    const auto tokens = static_cast<int64_t>(x.size()) / (kHeads * kHeadDim);
    const auto tables = std::array{tensor(c, "inputs", 1), tensor(c, "inputs", 2)};
    const int64_t half = shape(c, "inputs", 1).back();
    std::vector<int64_t> rows(static_cast<size_t>(tokens));
    std::iota(rows.begin(), rows.end(), 0);
    if (c.at("inputs").as_array().size() == 4) rows = tensor<int64_t>(c, "inputs", 3);
    std::vector<float> cos, sin, q(x.size());
    for (const int64_t row : rows) {
      cos.insert(cos.end(), tables[0].begin() + row * half, tables[0].begin() + (row + 1) * half);
      sin.insert(sin.end(), tables[1].begin() + row * half, tables[1].begin() + (row + 1) * half);
    }
    const auto place = [&](int64_t i) {  // element i of [T, H, D] in the file's order
      if (!heads_first) return i;
      const int64_t d = i % kHeadDim, h = i / kHeadDim % kHeads, t = i / (kHeadDim * kHeads);
      return ((t / seq * kHeads + h) * seq + t % seq) * kHeadDim + d;
    };
    for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) q[i] = x[place(i)];
    const auto style =
        attribute(c, "interleaved", 0) != 0 ? RopeStyle::kInterleaved : RopeStyle::kNeox;
    for (const Isa isa : kernel_test::isas()) {
      Host host(isa);
      const auto got =
          rotate(host.stream, q, kHeads, kHeadDim, cos, sin, static_cast<int32_t>(2 * half), style);
      for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
        ASSERT_NEAR(got[i], want[place(i)], 1e-6)
            << std::string_view(c.at("name").as_string()) << " " << i;
      }
    }
  }
}

// --- vLLM: .npy files; bf16 is stored as uint16 ---

std::vector<float> npy(const std::filesystem::path& path, bool bf16) {
  const std::string file = test::read_file(path);
  uint16_t header = 0;
  std::memcpy(&header, file.data() + 8, 2);  // version 1: magic, version, 16-bit header length
  const std::string_view data = std::string_view(file).substr(10u + header);
  if (!bf16) return elements<float>(data);
  std::vector<float> values;
  for (const uint16_t bits : elements<uint16_t>(data)) values.push_back(to_float(bfloat16{bits}));
  return values;
}

TEST(VllmVectors, RmsNorm) {
  QUIRE_REQUIRE_SHARED(root, "numeric/vllm_ops");
  for (const char* name : {"rmsnorm_f32_8x128", "rmsnorm_bf16_8x128", "rmsnorm_gemma_bf16_8x128",
                           "rmsnorm_fused_residual_f32_8x128"}) {
    const auto dir = root / name;
    const bool bf16 = std::string_view(name).find("bf16") != std::string_view::npos;
    auto x = npy(dir / "x.npy", bf16);
    auto weight = npy(dir / "weight.npy", bf16);
    const auto want = npy(dir / "out.npy", false);
    ASSERT_EQ(want.size(), 8u * 128u);
    if (std::filesystem::exists(dir / "residual_in.npy")) {
      const auto residual = npy(dir / "residual_in.npy", false);
      for (size_t i = 0; i < x.size(); ++i) x[i] += residual[i];
    }
    if (std::string_view(name).find("gemma") != std::string_view::npos) {
      for (float& w : weight) w += 1.0f;  // as the loader folds it
    }
    for (const Isa isa : kernel_test::isas()) {
      Host host(isa);
      auto got = kernel_test::poisoned(8 * 128);
      RmsNormParams p{.x = x.data(), .weight = weight.data(), .out = got.data(), .eps = 1e-6f};
      p.num_tokens = 8;
      p.hidden_size = 128;
      rms_norm(host.stream, p);
      for (size_t i = 0; i < want.size(); ++i) {  // the tolerance of the vectors' own manifest
        const double tolerance = bf16 ? 0.008 : 1e-5;
        ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << name;
      }
    }
  }
}

TEST(VllmVectors, SiluAndMul) {
  QUIRE_REQUIRE_SHARED(dir, "numeric/vllm_ops/silu_and_mul_bf16_8x256");
  const auto x = npy(dir / "x.npy", true);
  const auto want = npy(dir / "out.npy", false);
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    auto got = kernel_test::poisoned(8 * 128);
    activation(host.stream, {.x = x.data(), .out = got.data(), .num_tokens = 8, .ffn_size = 128});
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 0.008 * (1 + std::abs(want[i])));
  }
}

TEST(VllmVectors, RopeShortAndLongPositions) {
  QUIRE_REQUIRE_SHARED(root, "numeric/vllm_ops");
  for (const auto& [name, tolerance] :
       {std::pair{"rope_f32_pos_short", 1e-5}, {"rope_f32_pos_131k", 0.02}}) {
    const auto dir = root / name;
    const auto q = npy(dir / "q_in.npy", false);
    const auto want = npy(dir / "q_out.npy", false);
    const std::string file = test::read_file(dir / "positions.npy");
    const auto positions64 = elements<int64_t>(std::string_view(file).substr(file.size() - 8 * 8));
    const std::vector<int32_t> positions(positions64.begin(), positions64.end());
    std::vector<double> inv_freq;
    for (int i = 0; i < 16; ++i) inv_freq.push_back(std::pow(10000.0, -i / 16.0));
    for (const Isa isa : kernel_test::isas()) {
      Host host(isa);
      std::vector<float> cos(8 * 16), sin(8 * 16);
      rope_table(host.stream, {.positions = positions.data(),
                               .inv_freq = inv_freq.data(),
                               .cos = cos.data(),
                               .sin = sin.data(),
                               .num_tokens = 8,
                               .rotary_dim = 32});
      const auto got = rotate(host.stream, q, 4, 64, cos, sin, 32, RopeStyle::kNeox);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace quire
