// An fp8 KV cache with the scales of the checkpoint, through ModelRunner.
//
// The test scales the keys and values of the golden llama by 2^-14 and 2^-12 through its weights,
// and its queries and outputs by the inverse. It computes the same bits wherever no number is
// rounded to a coarse format. In an e4m3 cache, most of the stored values would become zero without
// the scale of each KV head.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "exec/model_runner.h"
#include "exec/testing/golden_support.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

using test::LogitsByPosition;

constexpr int kLayers = 3, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kHidden = 32;
constexpr int kKeyShift[kKvHeads] = {14, 13};  // keys are scaled by 2^-shift
constexpr int kValueShift[kKvHeads] = {12, 14};

struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// The tensors of a safetensors file, which can be changed and written again.
class Tensors {
 public:
  explicit Tensors(const std::filesystem::path& path) {
    const std::string bytes = test::read_file(path);
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), 8);
    const boost::json::value header = boost::json::parse(bytes.substr(8, size));
    for (const auto& [name, about] : header.as_object()) {
      if (name == "__metadata__") continue;
      const auto offsets = boost::json::value_to<std::vector<size_t>>(about.at("data_offsets"));
      tensors_[name] = {std::string(about.at("dtype").as_string()),
                        boost::json::value_to<std::vector<int64_t>>(about.at("shape")),
                        bytes.substr(8 + size + offsets[0], offsets[1] - offsets[0])};
    }
  }

  void add(const std::string& name, const std::vector<float>& values) {
    tensors_[name] = {"F32",
                      {static_cast<int64_t>(values.size())},
                      std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size())};
  }

  // Multiplies element [row, column] of a bf16 matrix of kHidden columns by 2^exponent(row,
  // column).
  template <typename Exponent>
  void scale(const std::string& name, Exponent&& exponent) {
    std::string& data = tensors_.at(name).data;
    for (size_t i = 0; i < data.size() / 2; ++i) {
      bfloat16 element;
      std::memcpy(&element, &data[2 * i], 2);
      const auto at = static_cast<int>(i);
      element = to_bfloat16(std::ldexp(to_float(element), exponent(at / kHidden, at % kHidden)));
      std::memcpy(&data[2 * i], &element, 2);
    }
  }

  std::string file() const {
    boost::json::object header;
    std::string data;
    for (const auto& [name, tensor] : tensors_) {
      const size_t begin = data.size();
      data += tensor.data;
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", boost::json::value_from(tensor.shape)},
                      {"data_offsets", {begin, data.size()}}};
    }
    std::string text = boost::json::serialize(header);
    text.append((8 - text.size() % 8) % 8, ' ');
    const uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

std::string attention_name(int layer, const char* name) {
  return fmt::format("model.layers.{}.self_attn.{}", layer, name);
}

// Scales the model as described at the top.
Tensors small_keys_and_values(Tensors tensors) {
  constexpr int kGroup = kHeads / kKvHeads;
  for (int layer = 0; layer < kLayers; ++layer) {
    tensors.scale(attention_name(layer, "q_proj.weight"),
                  [](int row, int) { return kKeyShift[row / kHeadDim / kGroup]; });
    tensors.scale(attention_name(layer, "k_proj.weight"),
                  [](int row, int) { return -kKeyShift[row / kHeadDim]; });
    tensors.scale(attention_name(layer, "v_proj.weight"),
                  [](int row, int) { return -kValueShift[row / kHeadDim]; });
    tensors.scale(attention_name(layer, "o_proj.weight"),
                  [](int, int column) { return kValueShift[column / kHeadDim / kGroup]; });
  }
  return tensors;
}

void add_scales(Tensors& tensors) {
  for (int layer = 0; layer < kLayers; ++layer) {
    tensors.add(attention_name(layer, "k_scale"),
                {std::ldexp(1.0f, -kKeyShift[0]), std::ldexp(1.0f, -kKeyShift[1])});
    tensors.add(attention_name(layer, "v_proj.v_scale"),
                {std::ldexp(1.0f, -kValueShift[0]), std::ldexp(1.0f, -kValueShift[1])});
  }
}

class KvScales : public ::testing::Test {
 protected:
  KvScales() : dir_(test::golden_dir("llama")), tensors_(dir_ / "model.safetensors") {}

  Result<std::unique_ptr<ModelRunner>> load(const std::string& file, const std::string& kv_dtype) {
    ModelRunnerOptions options;
    options.files = std::make_shared<const ModelFiles>(
        ModelFiles::from_memory({{"model.safetensors", std::as_bytes(std::span(file))},
                                 {"config.json", std::as_bytes(std::span(config_))}}));
    options.dtype = "float32";
    options.kv_cache_dtype = kv_dtype;
    options.kv_cache_memory_bytes = int64_t{16} << 20;
    options.threads = 1;
    options.pin_threads = false;
    options.on_logits = [this](RequestId, int32_t position, std::span<const float> row) {
      seen_[position].assign(row.begin(), row.end());
    };
    return ModelRunner::create(options);
  }

  // Returns the logits of all 60 tokens of a prompt, one after the other.
  std::vector<float> logits(const Tensors& tensors, const std::string& kv_dtype) {
    const std::string file = tensors.file();
    auto runner = load(file, kv_dtype);
    QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
    QUIRE_CHECK((*runner)->initialize({.num_blocks = test::kGoldenBlocks}).ok());
    std::vector<TokenId> prompt;
    for (int i = 0; i < 60; ++i) prompt.push_back(3 + i * 37 % 150);
    test::DriverRequest request = test::greedy_request(prompt, 1);
    request.params.prompt_logprobs = 1;
    seen_.clear();
    const auto output = test::PlanDriver(**runner, test::kGoldenBlocks).run({request}, {});
    QUIRE_CHECK(output.at(request.id).status.ok());
    std::vector<float> all;
    for (const auto& [position, row] : seen_) all.insert(all.end(), row.begin(), row.end());
    return all;
  }

  std::filesystem::path dir_;
  std::string config_ = test::read_file(dir_ / "config.json");
  Tensors tensors_;
  LogitsByPosition seen_;
};

TEST_F(KvScales, MakeUpForKeysAndValuesOutsideTheRangeOfE4m3) {
  const std::vector<float> exact = logits(tensors_, "float32");
  const std::vector<float> unscaled = logits(tensors_, "fp8_e4m3");
  Tensors small = small_keys_and_values(tensors_);
  EXPECT_EQ(logits(small, "float32"), exact) << "the two models are one";

  const double lost = test::relative_error(logits(small, "fp8_e4m3"), exact);
  add_scales(small);
  const std::vector<float> scaled = logits(small, "fp8_e4m3");
  EXPECT_EQ(scaled, unscaled) << "as if keys and values had never been small";
  const double kept = test::relative_error(scaled, exact);
  EXPECT_GT(kept, 0.0);
  EXPECT_LT(kept * 2, lost);
}

TEST_F(KvScales, AreReadForFp8CachesAlone) {
  const std::vector<float> exact = logits(tensors_, "float32");
  tensors_.add(attention_name(1, "k_scale"), {0.0f});
  EXPECT_EQ(logits(tensors_, "float32"), exact);
  const std::string file = tensors_.file();
  const auto refused = load(file, "fp8_e5m2");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("model.layers.1.self_attn.k_scale"), std::string::npos)
      << refused.status().message();
}

}  // namespace
}  // namespace quire
