// StateSpec describes a mixer that carries a state of fixed size from token to token, as plain
// data: a convolution over the last tokens, followed, except in the short convolution, by a
// recurrence over all tokens.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/api/causal_conv.h"
#include "kernels/api/delta_rule.h"
#include "kernels/api/gated_norm.h"
#include "kernels/api/selective_scan.h"
#include "kernels/api/ssd_scan.h"

namespace quire {

enum class StateKind : uint8_t {
  kNone,
  kShortConv,      // LFM2: out = C * conv(B * x)
  kSelectiveScan,  // Mamba
  kSsd,            // Mamba-2
  kDeltaRule,      // Gated DeltaNet; with a decay per channel: Kimi Delta Attention
};

// Norms of step, B and C between the projections of a selective scan.
enum class StepNorms : uint8_t { kNone, kPlain, kWeighted };

// The outputs of the input projection, in order; C: marks those that the convolution reads:
//   kShortConv      B [I] | C [I] | x [I]
//   kSelectiveScan  C: x [I] | z [I]
//   kSsd            z [I] | C: x [I], B [G, N], C [G, N] | step [H]
//   kDeltaRule      C: q [Hk, Dk], k [Hk, Dk], v [H, Dv] | beta [H] | z [I] | step [H], or with a
//                   decay per channel | beta [H] | step [R] | z [R] through narrow layers of R
struct StateSpec {
  StateKind kind = StateKind::kNone;
  int32_t conv_kernel = 0;
  bool conv_bias = false;
  bool proj_bias = false;     // of the input projection
  bool out_bias = false;      // of the output projection
  int32_t num_heads = 0;      // H; the channels of kShortConv and kSelectiveScan
  int32_t num_key_heads = 0;  // Hk, or the groups G of B and C
  int64_t value_dim = 1;      // Dv, or P of kSsd
  int64_t key_dim = 0;        // Dk, or N
  int64_t rank = 0;           // R: of the step's projection
  float min_step = 0.0f;      // lower bound of the step
  float max_step = 3.4e38f;
  StepNorms step_norms = StepNorms::kNone;
  bool has_channel_decay = false;
  bool tiled_heads = false;  // value head h reads key head h mod Hk

  // How the output [I] is gated before the output projection (kernels/api/gated_norm.h).
  Gate gate = Gate::kNone;
  bool gate_first = false;
  bool has_norm = false;
  int64_t norm_group = 0;    // elements that are normed together
  bool shared_norm = false;  // all groups use one group's weights
  float norm_eps = 1e-6f;

  // Factors of kSsd on the parts z, x, B, C and step of the input, and on the output.
  std::array<float, 5> in_scales = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
  float out_scale = 1.0f;

  bool any() const { return kind != StateKind::kNone; }
  int64_t inner_size() const { return num_heads * value_dim; }  // I
  int64_t key_size() const { return num_key_heads * key_dim; }
  // Return the number of channels of the convolution, and the column of the input projection at
  // which they begin.
  int64_t conv_channels() const;
  int64_t conv_begin() const { return kind == StateKind::kSsd ? inner_size() : 0; }
  int64_t in_rows() const;
  // Return the floats that a sequence stores: the convolution's last inputs, followed by the
  // recurrence's state.
  int64_t conv_floats() const;
  int64_t state_floats() const;
  int64_t num_parameters(int64_t hidden_size) const;
};

}  // namespace quire
