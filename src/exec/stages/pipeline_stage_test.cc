#include "exec/stages/pipeline_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace quire {
namespace {

DecoderSpec spec_of(int64_t num_layers) {
  DecoderSpec whole;
  whole.hidden_size = 4;
  whole.layers.resize(static_cast<size_t>(num_layers));
  for (LayerSpec& layer : whole.layers) layer.ffn.intermediate_size = 8;
  return whole;
}

TEST(PipelineStage, LayersAreDealtOutOnceAndEvenly) {
  for (int64_t num_layers = 1; num_layers < 24; ++num_layers) {
    const DecoderSpec whole = spec_of(num_layers);
    for (int32_t count = 1; count <= num_layers; ++count) {
      int64_t end = 0, least = num_layers, most = 0;
      for (int32_t index = 0; index < count; ++index) {
        const RowRange layers = layers_of(whole, {index, count});
        EXPECT_EQ(layers.begin, end);
        end = layers.end;
        least = std::min(least, layers.size());
        most = std::max(most, layers.size());
      }
      EXPECT_EQ(end, num_layers);
      EXPECT_LE(most - least, 1);
    }
  }
}

// Compares with all ways to cut a model into three stages.
TEST(PipelineStage, TheLargestStageIsAsSmallAsCanBe) {
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    DecoderSpec whole = spec_of(3 + static_cast<int64_t>(random() % 9));
    for (LayerSpec& layer : whole.layers)
      layer.ffn.intermediate_size = 1 + static_cast<int64_t>(random() % 30);
    whole.has_head = true;
    whole.vocab_size = static_cast<int64_t>(random() % 100);
    const auto num_layers = std::ssize(whole.layers);
    const auto parameters = [&](int64_t begin, int64_t end) {
      int64_t sum = end == num_layers ? whole.vocab_size * whole.hidden_size : 0;
      for (int64_t i = begin; i < end; ++i)
        sum += whole.num_layer_parameters(static_cast<size_t>(i));
      return sum;
    };
    int64_t least = std::numeric_limits<int64_t>::max(), got = 0;
    for (int64_t a = 1; a < num_layers - 1; ++a) {
      for (int64_t b = a + 1; b < num_layers; ++b) {
        least = std::min(least,
                         std::max({parameters(0, a), parameters(a, b), parameters(b, num_layers)}));
      }
    }
    for (int32_t index = 0; index < 3; ++index) {
      const RowRange layers = layers_of(whole, {index, 3});
      got = std::max(got, parameters(layers.begin, layers.end));
    }
    EXPECT_EQ(got, least);
  }
}

TEST(PipelineStage, EmbeddingFirstHeadLastLayersBetween) {
  DecoderSpec whole;
  whole.layers.resize(5);
  for (LayerSpec& layer : whole.layers) {
    layer.attention.num_heads = 4;
    layer.ffn.intermediate_size = 8;
  }
  whole.tied_head = whole.block.final_norm = whole.block.embedding_norm = true;
  int32_t num_layers = 0;
  for (int32_t index = 0; index < 3; ++index) {
    const DecoderSpec own = stage_of(whole, {index, 3});
    EXPECT_EQ(own.layers.size(), 5u);
    num_layers += static_cast<int32_t>(std::count_if(
        own.layers.begin(), own.layers.end(), [](const LayerSpec& l) { return l.ffn.any(); }));
    EXPECT_EQ(own.block.embedding_norm, index == 0);
    EXPECT_EQ(own.has_head, index == 2);
    EXPECT_EQ(own.block.final_norm, index == 2);
  }
  EXPECT_EQ(num_layers, 5);
}

TEST(PipelineStage, NoMoreStagesThanLayers) {
  DecoderSpec whole;
  whole.layers.resize(2);
  EXPECT_TRUE(check_stages(whole, 2).ok());
  EXPECT_FALSE(check_stages(whole, 3).ok());
  EXPECT_FALSE(check_stages(whole, 0).ok());
}

TEST(PipelineStage, LayersThatShareKeysAndValuesStayTogether) {
  DecoderSpec whole;
  whole.layers.resize(4);
  for (LayerSpec& layer : whole.layers) layer.attention.num_heads = 4;
  whole.layers[3].attention.kv_layer = 2;
  EXPECT_TRUE(check_stages(whole, 2).ok());
  EXPECT_TRUE(check_stages(whole, 3).ok());
  const Status parted = check_stages(whole, 4);
  EXPECT_EQ(parted.code(), StatusCode::kUnimplemented);
  EXPECT_NE(parted.message().find("layer 3 reads the keys and values of layer 2"),
            std::string::npos)
      << parted.message();
  whole.layer_inputs.size = 8;
  EXPECT_EQ(check_stages(whole, 2).code(), StatusCode::kUnimplemented);
  EXPECT_TRUE(check_stages(whole, 1).ok());
}

}  // namespace
}  // namespace quire
