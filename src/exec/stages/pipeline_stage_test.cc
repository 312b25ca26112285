#include "exec/stages/pipeline_stage.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quire {
namespace {

TEST(PipelineStage, LayersAreDealtOutOnceAndEvenly) {
  for (int64_t num_layers = 1; num_layers < 40; ++num_layers) {
    for (int32_t count = 1; count <= num_layers; ++count) {
      int64_t end = 0, least = num_layers, most = 0;
      for (int32_t index = 0; index < count; ++index) {
        const RowRange layers = PipelineStage{index, count}.layers(num_layers);
        EXPECT_EQ(layers.begin, end);
        end = layers.end;
        least = std::min(least, layers.size());
        most = std::max(most, layers.size());
      }
      EXPECT_EQ(end, num_layers);
      EXPECT_LE(most - least, 1);
      EXPECT_EQ((PipelineStage{count - 1, count}.layers(num_layers).size()), least);
    }
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
