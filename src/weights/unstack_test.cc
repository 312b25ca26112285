#include "weights/unstack.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

constexpr NameMapEntry kStackNames[] = {
    {TensorRole::kTokenEmbedding, "embed"},
    {TensorRole::kExpertUp, "layers.{}.up.{e}"},
    {TensorRole::kExpertDown, "layers.{}.down.{e}"},
    {TensorRole::kStreamIn, "streams.{e}"},
};
constexpr NamePrefix kStackPrefixes[] = {{"model.", ""}};
constexpr NameMap kStackMap{kStackNames, kStackPrefixes};

class Unstack : public ::testing::Test {
 protected:
  void add(std::string name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    tensors_.push_back({.name = std::move(name),
                        .type_name = "U8",
                        .dtype = DType::kU8,
                        .shape = std::move(shape),
                        .data = std::span(bytes_).first(static_cast<size_t>(count))});
  }
  TensorSource run() { return unstack_experts(TensorSource(tensors_), kStackMap); }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(1000);
  std::vector<RawTensor> tensors_;
};

TEST_F(Unstack, OneTensorPerExpertWhateverTheNamesEndWith) {
  add("model.embed.weight", {4, 2});
  add("model.layers.0.up.weight", {3, 4, 2});
  add("model.layers.0.up.bias", {3, 4});
  add("model.layers.12.down", {2, 5, 1});
  add("model.layers.12.down_bias", {2, 5});
  add("model.layers.12.up_blocks", {2, 4, 1, 16});
  add("model.layers.12.up_scales", {2, 4, 1});
  const TensorSource source = run();
  EXPECT_EQ(source.tensors().size(), 1u + 3 + 3 + 2 + 2 + 2 + 2);
  const RawTensor* last = source.find("model.layers.0.up.2.weight");
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->shape, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(last->data.data(), bytes_.data() + 16);
  EXPECT_EQ(last->data.size(), 8u);
  for (const char* name :
       {"model.layers.0.up.0.bias", "model.layers.12.down.1.weight", "model.layers.12.down.0.bias",
        "model.layers.12.up.1.blocks", "model.layers.12.up.1.scales", "model.embed.weight"}) {
    EXPECT_NE(source.find(name), nullptr) << name;
  }
}

TEST_F(Unstack, RowsOfAllExpertsInOneMatrixAreCutWhereTheirNumberIsKnown) {
  add("model.embed.weight", {6, 2});
  add("model.layers.0.up", {6, 4});
  add("model.layers.1.up", {3, 4});  // a vector per expert
  const TensorSource source = unstack_experts(TensorSource(tensors_), kStackMap, 3);
  EXPECT_EQ(source.tensors().size(), 1u + 3 + 3);
  ASSERT_NE(source.find("model.layers.0.up.2.weight"), nullptr);
  EXPECT_EQ(source.find("model.layers.0.up.2.weight")->shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(source.find("model.layers.0.up.2.weight")->data.data(), bytes_.data() + 16);
  ASSERT_NE(source.find("model.layers.1.up.2.weight"), nullptr);
  EXPECT_EQ(source.find("model.layers.1.up.2.weight")->shape, (std::vector<int64_t>{4}));
}

TEST_F(Unstack, StacksOutsideTheLayersAreCutToo) {
  add("model.embed.weight", {4, 2});
  add("model.streams.weight", {3, 2, 2});
  add("model.streams.7.weight", {2, 2});  // apart already
  const TensorSource source = run();
  EXPECT_EQ(source.tensors().size(), 1u + 3 + 1);
  ASSERT_NE(source.find("model.streams.2.weight"), nullptr);
  EXPECT_EQ(source.find("model.streams.2.weight")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_NE(source.find("model.streams.7.weight"), nullptr);
}

TEST_F(Unstack, WhatIsNoStackOfExpertsStaysWhole) {
  add("model.layers.0.up.weight", {8});           // no matrix per expert
  add("model.layers.x.up.weight", {2, 2, 2});     // no layer
  add("other.layers.0.up.weight", {2, 2, 2});     // another trunk
  add("model.layers.0.up.0.weight", {2, 2});      // one expert already
  add("model.layers.0.upper.weight", {2, 2, 2});  // another module
  add("model.layers.1.up.weight", {0, 2, 2});     // no experts
  const TensorSource source = run();
  EXPECT_EQ(source.tensors().size(), tensors_.size());
  for (const RawTensor& tensor : tensors_) EXPECT_NE(source.find(tensor.name), nullptr);
}

}  // namespace
}  // namespace quire
