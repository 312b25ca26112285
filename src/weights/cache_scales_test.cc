#include "weights/cache_scales.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire {
namespace {

constexpr NameMapEntry kScaleNames[] = {{TensorRole::kTokenEmbedding, "embed"},
                                        {TensorRole::kK, "layers.{}.self_attn.k_proj"}};
constexpr NamePrefix kScalePrefixes[] = {{"wrapped.model.", ""}, {"model.", ""}};
constexpr NameMap kScaleMap{kScaleNames, kScalePrefixes, {}, 0.0f};

// A safetensors file in memory that holds a token embedding and scales.
class File {
 public:
  explicit File(const std::string& prefix = "model.") { add(prefix + "embed.weight", {1}, "[1]"); }

  File& add(const std::string& name, const std::vector<float>& values, const std::string& shape) {
    const size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header_ += fmt::format("{}\"{}\":{{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                           header_.empty() ? "" : ",", name, shape, begin, data_.size());
    return *this;
  }

  // The model has two layers of three KV heads, unless others are given.
  Result<CacheScales> read(const std::vector<int32_t>& num_kv_heads = {3, 3}) {
    std::string header = "{" + header_ + "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    const uint64_t size = header.size();
    std::string bytes(reinterpret_cast<const char*>(&size), 8);
    bytes += header + data_;
    const ModelFiles files =
        ModelFiles::from_memory({{"model.safetensors", std::as_bytes(std::span(bytes))}});
    const auto source = TensorSource::open(files);
    QUIRE_CHECK(source.ok(), "{}", source.status().message());
    return read_cache_scales(kScaleMap, *source, num_kv_heads);
  }

  std::string error() {
    const auto scales = read();
    return scales.ok() ? "" : scales.status().message();
  }

 private:
  std::string header_, data_;
};

using Floats = std::vector<float>;

TEST(CacheScales, AbsentOnesAreOne) {
  const auto none = File().read();
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_EQ(none->key, Floats(6, 1.0f));
  EXPECT_EQ(none->value, Floats(6, 1.0f));
  EXPECT_EQ(none->num_layers_without_scale, 2);

  const auto half = File().add("model.layers.1.self_attn.k_scale", {0.5f}, "[]").read();
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_EQ(half->key, (Floats{1, 1, 1, 0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(half->value, Floats(6, 1.0f));
  EXPECT_EQ(half->num_layers_without_scale, 2);
}

TEST(CacheScales, ALayerWithoutHeadsMayHaveAScale) {
  const auto scales = File().add("model.layers.1.self_attn.kv_scale", {0.5f}, "[]").read({3, 0});
  ASSERT_TRUE(scales.ok()) << scales.status().message();
  EXPECT_EQ(scales->key, Floats(3, 1.0f));
  const auto none = File().add("model.layers.1.self_attn.k_scale", {0.5f}, "[]").read({0, 0});
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none->key.empty());
}

TEST(CacheScales, EveryNameAndShape) {
  for (const char* module : {"self_attn", "self_attn.attn", "attn", "self_attn.qkv_proj"}) {
    const std::string at = std::string("model.layers.0.") + module;
    const auto scales =
        File().add(at + ".k_scale", {2, 3, 4}, "[3]").add(at + ".v_scale", {0.25f}, "[1]").read();
    ASSERT_TRUE(scales.ok()) << scales.status().message();
    EXPECT_EQ(scales->key, (Floats{2, 3, 4, 1, 1, 1})) << module;
    EXPECT_EQ(scales->value, (Floats{0.25f, 0.25f, 0.25f, 1, 1, 1})) << module;
    EXPECT_EQ(scales->num_layers_without_scale, 1);
  }
  const auto projections =
      File("wrapped.model.")
          .add("wrapped.model.layers.1.self_attn.k_proj.k_scale", {2}, "[1,1]")
          .add("wrapped.model.layers.1.self_attn.v_proj.v_scale", {3, 4, 5}, "[1,3,1]")
          .add("vision.layers.7.self_attn.k_scale", {-1}, "[]")
          .add("wrapped.model.layers.1.self_attn.q_scale", {-1}, "[]")
          .read();
  ASSERT_TRUE(projections.ok()) << projections.status().message();
  EXPECT_EQ(projections->key, (Floats{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(projections->value, (Floats{1, 1, 1, 3, 4, 5}));
}

TEST(CacheScales, TheOldJointScaleYieldsToItsSuccessors) {
  const auto scales = File()
                          .add("model.layers.0.self_attn.kv_scale", {7}, "[]")
                          .add("model.layers.1.self_attn.kv_scale", {7}, "[]")
                          .add("model.layers.1.self_attn.v_scale", {8}, "[]")
                          .read();
  ASSERT_TRUE(scales.ok()) << scales.status().message();
  EXPECT_EQ(scales->key, Floats(6, 7.0f));
  EXPECT_EQ(scales->value, (Floats{7, 7, 7, 8, 8, 8}));
  EXPECT_EQ(scales->num_layers_without_scale, 0);
}

TEST(CacheScales, LiesAreNamed) {
  const std::string name = "model.layers.0.self_attn.v_scale";
  const float inf = std::numeric_limits<float>::infinity();
  for (const float lie : {0.0f, -0.0f, -0.5f, inf, -inf, std::nanf(""), 1e-40f}) {
    const std::string error = File().add(name, {1, lie, 1}, "[3]").error();
    EXPECT_NE(error.find("'" + name + "': expected scales that are positive numbers, got"),
              std::string::npos)
        << lie << ": " << error;
  }
  for (const auto& [count, shape] :
       {std::pair<size_t, const char*>{2, "[2]"}, {6, "[6]"}, {9, "[3,3]"}, {0, "[0]"}}) {
    EXPECT_NE(File().add(name, Floats(count, 1.0f), shape).error().find("each of 3 KV heads"),
              std::string::npos)
        << shape;
  }
  for (const char* layer : {"2", "99999999999999999999"}) {
    const std::string other = fmt::format("model.layers.{}.self_attn.k_scale", layer);
    EXPECT_NE(File().add(other, {1}, "[]").error().find("expected a scale of one of 2 layers"),
              std::string::npos);
  }
  File twice;
  twice.add(name, {1}, "[]").add("model.layers.0.self_attn.v_proj.v_scale", {2}, "[]");
  EXPECT_NE(twice.error().find("expected the same scale as in"), std::string::npos);
  File agreed;
  agreed.add(name, {2}, "[]").add("model.layers.0.self_attn.v_proj.v_scale", {2}, "[1]");
  EXPECT_EQ(agreed.error(), "");
}

}  // namespace
}  // namespace quire
