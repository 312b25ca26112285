// route_tokens() chooses the experts of each token and the weights of their outputs.
//
// Let l be a token's router logits [X], s their scores (softmax over X, or sigmoid) and c = s +
// bias. The k experts with the largest c are chosen, in descending order of c and of equal c the
// lowest id first. With groups only experts of the best groups are candidates (DeepSeek-V3, arXiv
// 2412.19437). The weight of a chosen expert is a function of s and l, without the bias. Everything
// is computed in float32 and depends on the token's own logits alone (law L4).
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

// The weight by which a chosen expert's output is multiplied, before `scale`.
enum class RouterWeight : uint8_t {
  kScore,            // s
  kNormalized,       // s / max(sum of the chosen s, min_sum)
  kSoftmaxOfChosen,  // the softmax over the chosen logits alone; experts are chosen by l
  // Phi-3.5-MoE's SparseMixer (arXiv 2409.12136): two experts, chosen by l. The weight of a chosen
  // logit m is its softmax over the logits l that were not chosen before it and have
  // (m - l) / max(|l|, m) <= 2 * jitter.
  kSparseMixer,
  kLogit,  // l; experts are chosen by l
};

// The score of a group: the largest c of its experts, or the sum of the two largest.
enum class GroupScore : uint8_t { kMax, kSumOfTwo };

struct RouterSpec {
  int32_t num_experts = 0;        // X
  int32_t experts_per_token = 0;  // k, in [1, X]
  RouterScore score = RouterScore::kSoftmax;
  RouterWeight weight = RouterWeight::kScore;
  float min_sum = 0.0f;
  float scale = 1.0f;   // multiplies every weight
  float jitter = 0.0f;  // for kSparseMixer
  // A group is X / num_groups experts with neighbouring ids.
  int32_t num_groups = 1;
  int32_t groups_per_token = 1;
  GroupScore group_score = GroupScore::kMax;

  friend bool operator==(const RouterSpec&, const RouterSpec&) = default;
};

inline constexpr int32_t kMaxExperts = 4096;
inline constexpr int32_t kMaxExpertsPerToken = 64;

struct RouteTokensParams {
  const float* logits = nullptr;  // [T, X]
  // [X] or null: added to the scores for the choice alone. Only with kScore and kNormalized.
  const float* bias = nullptr;
  RouterSpec router = {};
  int32_t* expert_ids = nullptr;    // [T, k], out
  float* expert_weights = nullptr;  // [T, k], out
  // [X] or null: multiplies the weight of each chosen expert, besides `scale`.
  const float* expert_scale = nullptr;
  // [T] or null: only for kLogit with one expert per token. The chosen logit is stored here, and
  // the weight is 1.
  float* chosen_logits = nullptr;
  int64_t num_tokens = 0;
};
void route_tokens(Stream& stream, const RouteTokensParams& params);

}  // namespace quire
