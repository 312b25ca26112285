// Ops of models with several residual streams, of which each layer reads one and corrects all
// (AltUp: Baykal et al., 2023), and other ops that such models need around the residual add.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "tensor/activations.h"

namespace quire {

inline constexpr int64_t kMaxStreams = 16;

// predict_streams() predicts all streams before a layer, which then reads the active one:
// x_s += sum_j coefs_sj x_j, in place and for all s at once.
struct PredictStreamsParams {
  float* streams = nullptr;      // [T, S, E]
  const float* coefs = nullptr;  // [T, S, S]
  float* active_out = nullptr;   // [T, E]: a copy of the new active stream
  int64_t active = 0;            // < S
  int64_t num_tokens = 0;        // T
  int64_t num_streams = 0;       // S <= kMaxStreams
  int64_t hidden_size = 0;       // E
};
void predict_streams(Stream& stream, const PredictStreamsParams& params);

// correct_streams() corrects all streams by a layer's output for the active one:
// x_s += (1 + coefs_s) (made - x_active), in place and for all s at once.
struct CorrectStreamsParams {
  float* streams = nullptr;      // [T, S, E]
  const float* made = nullptr;   // [T, E]: the layer's output
  const float* coefs = nullptr;  // [T, S]
  int64_t active = 0;
  // [T, E]: a copy of the new active stream, times `scale` [E] if that is not null; may be `made`.
  float* active_out = nullptr;
  const float* scale = nullptr;
  int64_t num_tokens = 0;
  int64_t num_streams = 0;
  int64_t hidden_size = 0;
};
void correct_streams(Stream& stream, const CorrectStreamsParams& params);

// match_magnitude() scales each row of x to the root mean square of that row of `like`:
// x *= rms(like) / sqrt(max(mean(x^2), floor)).
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

// cut_below() keeps only the greatest elements of each row, and of these the part above a
// threshold: x = max(0, x - mean(x) - deviations * std(x)), with the mean and standard deviation of
// the row.
struct CutBelowParams {
  Activations x = nullptr;  // [T, N]
  int64_t x_stride = 0;
  float deviations = 0.0f;
  int64_t num_tokens = 0;
  int64_t size = 0;  // N
};
void cut_below(Stream& stream, const CutBelowParams& params);

}  // namespace quire
