#include "nn/spec/state_spec.h"

namespace quire {

int64_t StateSpec::conv_channels() const {
  switch (kind) {
    case StateKind::kSsd:
    case StateKind::kDeltaRule:
      return inner_size() + 2 * key_size();
    default:
      return inner_size();
  }
}

int64_t StateSpec::in_rows() const {
  switch (kind) {
    case StateKind::kNone:
      break;
    case StateKind::kShortConv:
      return 3 * inner_size();
    case StateKind::kSelectiveScan:
      return 2 * inner_size();
    case StateKind::kSsd:
      return inner_size() + conv_channels() + num_heads;
    case StateKind::kDeltaRule:
      return conv_channels() + num_heads +
             (has_channel_decay ? 2 * rank : inner_size() + num_heads);
  }
  return 0;
}

int64_t StateSpec::conv_floats() const {
  if (!any()) return 0;
  // Rounds up to whole vectors, so that the recurrence's state is aligned.
  return (causal_conv_state_floats(conv_kernel, conv_channels()) + 15) / 16 * 16;
}

int64_t StateSpec::state_floats() const {
  switch (kind) {
    case StateKind::kNone:
    case StateKind::kShortConv:
      return conv_floats();
    case StateKind::kSelectiveScan:
      return conv_floats() + selective_scan_state_floats(inner_size(), key_dim);
    case StateKind::kSsd:
      return conv_floats() + ssd_scan_state_floats(num_heads, value_dim, key_dim);
    case StateKind::kDeltaRule:
      return conv_floats() + delta_rule_state_floats(num_heads, key_dim, value_dim);
  }
  return 0;
}

int64_t StateSpec::num_parameters(int64_t hidden_size) const {
  if (!any()) return 0;
  const int64_t inner = inner_size();
  int64_t sum = hidden_size * (in_rows() + inner) + (proj_bias ? in_rows() : 0) +
                (out_bias ? hidden_size : 0);
  sum += conv_channels() * (conv_kernel + (conv_bias ? 1 : 0));
  if (has_norm) sum += shared_norm ? norm_group : inner;
  if (kind == StateKind::kSelectiveScan) {
    sum += inner * (rank + 2 * key_dim) + inner * (rank + 1) + inner * (key_dim + 1);
    if (step_norms == StepNorms::kWeighted) sum += rank + 2 * key_dim;
  }
  if (kind == StateKind::kSsd) sum += 3 * num_heads;
  if (kind == StateKind::kDeltaRule && has_channel_decay)
    sum += rank * (num_heads * key_dim + inner) + num_heads * key_dim + num_heads;
  if (kind == StateKind::kDeltaRule && !has_channel_decay) sum += 2 * num_heads;
  return sum;
}

}  // namespace quire
