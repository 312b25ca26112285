#include "weights/gguf/ggml_types.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

constexpr std::array<GgmlType, 42> kTypes{{
    {0, "F32", 1, 4, DType::kF32},    {1, "F16", 1, 2, DType::kF16}, {2, "Q4_0", 32, 18, {}},
    {3, "Q4_1", 32, 20, {}},          {4, "Q4_2", 0, 0, {}},         {5, "Q4_3", 0, 0, {}},
    {6, "Q5_0", 32, 22, {}},          {7, "Q5_1", 32, 24, {}},       {8, "Q8_0", 32, 34, {}},
    {9, "Q8_1", 32, 36, {}},          {10, "Q2_K", 256, 84, {}},     {11, "Q3_K", 256, 110, {}},
    {12, "Q4_K", 256, 144, {}},       {13, "Q5_K", 256, 176, {}},    {14, "Q6_K", 256, 210, {}},
    {15, "Q8_K", 256, 292, {}},       {16, "IQ2_XXS", 256, 66, {}},  {17, "IQ2_XS", 256, 74, {}},
    {18, "IQ3_XXS", 256, 98, {}},     {19, "IQ1_S", 256, 50, {}},    {20, "IQ4_NL", 32, 18, {}},
    {21, "IQ3_S", 256, 110, {}},      {22, "IQ2_S", 256, 82, {}},    {23, "IQ4_XS", 256, 136, {}},
    {24, "I8", 1, 1, DType::kI8},     {25, "I16", 1, 2, {}},         {26, "I32", 1, 4, DType::kI32},
    {27, "I64", 1, 8, DType::kI64},   {28, "F64", 1, 8, {}},         {29, "IQ1_M", 256, 56, {}},
    {30, "BF16", 1, 2, DType::kBF16}, {31, "Q4_0_4_4", 0, 0, {}},    {32, "Q4_0_4_8", 0, 0, {}},
    {33, "Q4_0_8_8", 0, 0, {}},       {34, "TQ1_0", 256, 54, {}},    {35, "TQ2_0", 256, 66, {}},
    {36, "IQ4_NL_4_4", 0, 0, {}},     {37, "IQ4_NL_4_8", 0, 0, {}},  {38, "IQ4_NL_8_8", 0, 0, {}},
    {39, "MXFP4", 32, 17, {}},        {40, "NVFP4", 64, 36, {}},     {41, "Q1_0", 128, 18, {}},
}};

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  const auto* it = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const GgmlType& type) { return type.id == id; });
  return it == kTypes.end() ? nullptr : it;
}

}  // namespace quire
