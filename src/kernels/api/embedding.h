#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/ids.h"
#include "device/stream.h"
#include "kernels/api/linear.h"
#include "tensor/activations.h"

namespace quire {

// out[t] = scale * table[token_ids[t]] (+ position_table[positions[t]])
//          (+ type_table[token_types[t]])
struct EmbeddingParams {
  const TokenId* token_ids = nullptr;          // [T], each in [0, V): checked by the caller
  const void* table = nullptr;                 // [V, E]
  const PackedWeight* packed_table = nullptr;  // a quantized table, instead of `table`
  const int32_t* positions = nullptr;          // [T], used with position_table
  const void* position_table = nullptr;        // [P, E] or null (GPT-2 learned positions)
  const int32_t* token_types = nullptr;        // [T], used with type_table
  const void* type_table = nullptr;            // [types, E] or null (BERT); CPUs only
  DType table_dtype = DType::kF32;             // of all tables: f32, bf16 or f16
  float scale = 1.0f;
  Activations out = nullptr;  // [T, E]
  // Rows of the table that are here: ids of num_rows and more take row 0. 0: all ids have rows.
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void embedding(Stream& stream, const EmbeddingParams& params);

}  // namespace quire
