#include "weights/latent_heads.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire {
namespace {

constexpr NameMapEntry kLatentNames[] = {
    {TensorRole::kTokenEmbedding, "embed"},
    {.role = TensorRole::kLatentKeyUp, .pattern = "layers.{}.kv_b.{e}.k", .transposed = true},
    {TensorRole::kLatentValueUp, "layers.{}.kv_b.{e}.v"},
};
constexpr NamePrefix kLatentPrefixes[] = {{"model.", ""}};
constexpr NameMap kLatentMap{kLatentNames, kLatentPrefixes};
constexpr LatentHeads kHeads{.num_heads = 2, .key_rows = 3, .value_rows = 1, .rank = 4};

class LatentHeadsTest : public ::testing::Test {
 protected:
  void add(std::string name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    tensors_.push_back({.name = std::move(name),
                        .type_name = "BF16",
                        .dtype = DType::kBF16,
                        .shape = std::move(shape),
                        .data = std::span(bytes_).first(static_cast<size_t>(count) * 2)});
  }
  Result<SplitSource> run() {
    return split_latent_heads(TensorSource(tensors_), kLatentMap, QuantConfig(), kHeads);
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(1000);
  std::vector<RawTensor> tensors_;
};

TEST_F(LatentHeadsTest, KeysAndValuesOfEachHeadWhereTheyLie) {
  add("model.embed.weight", {4, 2});
  add("model.layers.11.kv_b.weight", {8, 4});
  const Result<SplitSource> split = run();
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ(split->source.tensors().size(), 5u);
  EXPECT_TRUE(split->memory.empty());
  const RawTensor* keys = split->source.find("model.layers.11.kv_b.1.k.weight");
  const RawTensor* values = split->source.find("model.layers.11.kv_b.1.v.weight");
  ASSERT_TRUE(keys != nullptr && values != nullptr);
  EXPECT_EQ(keys->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(keys->data.data(), bytes_.data() + 4 * 8);
  EXPECT_EQ(values->shape, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(values->data.data(), bytes_.data() + 7 * 8);
}

TEST_F(LatentHeadsTest, AMatrixOfOtherDimsIsRefused) {
  add("model.embed.weight", {4, 2});
  add("model.layers.0.kv_b.weight", {8, 5});
  const Result<SplitSource> split = run();
  ASSERT_FALSE(split.ok());
  EXPECT_NE(split.status().message().find("expected shape [8, 4], got [8, 5]"), std::string::npos)
      << split.status().message();
}

TEST_F(LatentHeadsTest, OthersStayWhole) {
  add("model.embed.weight", {4, 2});
  add("model.layers.0.kv_bb.weight", {8, 4});
  add("other.layers.0.kv_b.weight", {8, 4});
  add("model.layers.x.kv_b.weight", {8, 4});
  const Result<SplitSource> split = run();
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ(split->source.tensors().size(), tensors_.size());
}

}  // namespace
}  // namespace quire
