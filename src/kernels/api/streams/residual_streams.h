// Several residual streams beside each other, of which each layer reads one and corrects all (AltUp:
// Baykal et al., 2023), and what else stands beside the residual add of such models.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

inline constexpr int64_t kMaxStreams = 16;

// What a layer reads and the others come to: x_s += sum_j coefs_sj x_j, in place, for all s at once.
struct PredictStreamsParams {
  float* streams = nullptr;      // [T, S, E]
  const float* coefs = nullptr;  // [T, S, S]
  float* active_out = nullptr;   // [T, E]: a copy of the active stream's outcome
  int64_t active = 0;            // < S
  int64_t num_tokens = 0;        // T
  int64_t num_streams = 0;       // S <= kMaxStreams
  int64_t hidden_size = 0;       // E
};
void predict_streams(Stream& stream, const PredictStreamsParams& params);

// What a layer has made of the active stream moves all: x_s += (1 + coefs_s) (made - x_active), in
// place, for all s at once.
struct CorrectStreamsParams {
  float* streams = nullptr;      // [T, S, E]
  const float* made = nullptr;   // [T, E]
  const float* coefs = nullptr;  // [T, S]
  int64_t active = 0;
  // [T, E]: the active stream's outcome, times `scale` [E] where that is not null; may be `made`.
  float* active_out = nullptr;
  const float* scale = nullptr;
  int64_t num_tokens = 0;
  int64_t num_streams = 0;
  int64_t hidden_size = 0;
};
void correct_streams(Stream& stream, const CorrectStreamsParams& params);

// Rows take the root mean square of others: x *= rms(like) / sqrt(max(mean(x^2), floor)).
struct MatchMagnitudeParams {
  float* x = nullptr;           // [T, E]
  int64_t x_stride = 0;         // elements between rows
  const float* like = nullptr;  // [T, E]
  int64_t like_stride = 0;
  float floor = 1e-5f;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void match_magnitude(Stream& stream, const MatchMagnitudeParams& params);

// x = (x + y) * scale.
struct AddScaledParams {
  float* x = nullptr;  // [T, E]
  int64_t x_stride = 0;
  const float* y = nullptr;  // [T, E]
  int64_t y_stride = 0;
  float scale = 1.0f;
  int64_t num_tokens = 0;
  int64_t hidden_size = 0;
};
void add_scaled(Stream& stream, const AddScaledParams& params);

// The greatest of a row alone remain, by how far they lie above the others:
// x = max(0, x - mean(x) - deviations * std(x)), with the standard deviation of the row itself.
struct CutBelowParams {
  Activations x = nullptr;  // [T, N]
  int64_t x_stride = 0;
  float deviations = 0.0f;
  int64_t num_tokens = 0;
  int64_t size = 0;  // N
};
void cut_below(Stream& stream, const CutBelowParams& params);

}  // namespace quire
