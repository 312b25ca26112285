// Adds rows that are multiplied by a learned gate.
#pragma once

#include <cstdint>

namespace quire {

struct GatedRows {
  const float* rows = nullptr;  // [T, width]
  float gate = 0.0f;
  const uint8_t* wanted = nullptr;  // [T]: whether a row is added; null: all are
  int64_t num_rows = 0;             // T
  int64_t width = 0;
};
// Computes add_to [T, width] += tanh(gate) * rows, on the host. Rows that are not added may hold
// anything.
void add_gated_rows(const GatedRows& gated, float* add_to);

}  // namespace quire
