#include "exec/model_plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace quire {
namespace {

// Tensors whose bytes are never read.
class DominantDtype : public ::testing::Test {
 protected:
  void add(std::string name, std::optional<DType> dtype, size_t num_bytes) {
    tensors_.push_back({.name = std::move(name),
                        .dtype = dtype,
                        .shape = {2, 2},
                        .data = std::span(memory_).first(num_bytes)});
  }
  DType dtype() const { return dominant_dtype(TensorSource(tensors_)); }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  std::vector<RawTensor> tensors_;
};

TEST_F(DominantDtype, IsThatOfMostBytes) {
  add("a.weight", DType::kF16, 400);
  add("b.weight", DType::kF32, 300);
  EXPECT_EQ(dtype(), DType::kF16);
  add("c.weight", DType::kF32, 200);
  EXPECT_EQ(dtype(), DType::kF32);
}

TEST_F(DominantDtype, OfQuantizedMatricesAloneIsBfloat16) {
  add("blk.0.ffn_up.weight", std::nullopt, 900);
  EXPECT_EQ(dtype(), DType::kBF16);
}

// Routers of experts are float32 in files whose other matrices are quantized.
TEST_F(DominantDtype, Float32BesideQuantizedMatricesIsNotThatOfActivations) {
  add("blk.0.ffn_gate_exps.weight", std::nullopt, 900);
  add("blk.0.ffn_gate_inp.weight", DType::kF32, 200);
  EXPECT_EQ(dtype(), DType::kBF16);
}

TEST_F(DominantDtype, OfFloat16BesideQuantizedMatricesIsFloat16) {
  add("model.layers.0.up_proj.qweight", DType::kI32, 900);
  add("model.embed_tokens.weight", DType::kF16, 200);
  EXPECT_EQ(dtype(), DType::kF16);
}

}  // namespace
}  // namespace quire
