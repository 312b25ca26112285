#include "exec/gpu/gpu_packing.h"

#include <gtest/gtest.h>

#include "kernels/cuda/quant/quant_weight.h"
#include "kernels/cuda/test/test_device.h"

namespace quire {
namespace {

constexpr QuantSpec kGroups = {.bits = 4, .offset = 8, .group_size = 128};
constexpr QuantSpec kMxfp4 = {
    .bits = 4, .codebook = Codebook::kE2M1, .group_size = 32, .scale_type = ScaleType::kE8M0};
constexpr QuantSpec kGroupsOf16 = {.bits = 8, .offset = 128, .group_size = 16};

class GpuPackingTest : public gpu_test::GpuTest {
 protected:
  static WeightSpec stored(const QuantSpec& quant) {
    return {.n = 48, .k = 256, .compute = ComputeType::kBF16, .quant = quant};
  }

  ThreadTeam team_ = ThreadTeam::create({.num_threads = 1, .pin = false}).value();
};

TEST_F(GpuPackingTest, KeepsExpertsAsTheyAreStoredWhereAKernelTakesThem) {
  GpuPacking packing(*device_, team_);
  const auto chosen = [&](const QuantSpec& quant) {
    return packing.choose_of_expert(stored(quant), QuantActivations::kFloat).value();
  };
  EXPECT_EQ(chosen(kGroups).quant, kGroups);
  EXPECT_EQ(chosen(kMxfp4).quant, kMxfp4);
  // Codes of four bits, and a scale of one byte for each group of 32.
  EXPECT_EQ(packing.packed_bytes(chosen(kMxfp4)), 48 * 256 / 2 + 48 * 256 / 32);
  EXPECT_EQ(packing.counts().quantized_of_experts, 3);
  EXPECT_FALSE(chosen(kGroupsOf16).quant.is_quantized());
  QuantSpec ordered = kGroups;
  ordered.has_column_order = true;
  EXPECT_FALSE(chosen(ordered).quant.is_quantized());
  EXPECT_EQ(packing.counts().expanded_of_experts, 2);
  EXPECT_EQ(packing.counts().quantized, 0);
}

// One kernel multiplies a layer's gate and up projections, and another one its down projections.
TEST_F(GpuPackingTest, ExpandsExpertsOfALayerThatAreNotAlike) {
  GpuPacking packing(*device_, team_);
  struct Matrix {
    int32_t layer;
    TensorRole role;
    QuantSpec quant;
    bool stays;
  };
  const Matrix matrices[] = {
      {0, TensorRole::kExpertGate, kGroups, true}, {0, TensorRole::kExpertUp, kGroups, true},
      {0, TensorRole::kExpertDown, kMxfp4, true},  {1, TensorRole::kExpertGate, kGroups, false},
      {1, TensorRole::kExpertUp, kMxfp4, false},   {1, TensorRole::kExpertDown, kGroups, true},
      {2, TensorRole::kExpertUp, kMxfp4, true},    {2, TensorRole::kExpertDown, kGroupsOf16, false},
      {2, TensorRole::kExpertDown, kGroups, false}};
  std::vector<MatrixWeight> weights(std::size(matrices));
  std::vector<WeightSlot> slots(std::size(matrices));
  for (size_t i = 0; i < slots.size(); ++i) {
    const WeightSpec spec =
        packing.choose_of_expert(stored(matrices[i].quant), QuantActivations::kFloat).value();
    weights[i].n = spec.n;
    weights[i].parts = {{spec, nullptr}};
    slots[i].layer = matrices[i].layer;
    slots[i].expert = 0;
    slots[i].parts = {{matrices[i].role, spec.n}};
    slots[i].matrix = &weights[i];
  }
  packing.expand_unlike_experts(slots);
  for (size_t i = 0; i < slots.size(); ++i)
    EXPECT_EQ(weights[i].parts.front().spec.quant.is_quantized(), matrices[i].stays) << i;
  EXPECT_EQ(packing.counts().quantized_of_experts, 5);
  EXPECT_EQ(packing.counts().expanded_of_experts, 4);
}

}  // namespace
}  // namespace quire
