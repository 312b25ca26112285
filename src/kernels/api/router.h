// Which experts a token goes to, and with what weights.
//
// Let l be a token's router logits [X], s their score (softmax over X, or sigmoid) and c = s +
// bias. The k experts with the largest c are chosen, the lowest id among equals, in descending
// order of c. With groups only experts of the best groups are candidates (DeepSeek-V3, arXiv
// 2412.19437). A chosen expert's weight is a function of s and l, without the bias. Everything is
// computed in float32 and depends on the token's own logits alone (law L4).
#pragma once

#include <cstdint>

#include "device/stream.h"

namespace quire {

enum class RouterScore : uint8_t { kSoftmax, kSigmoid };

// What a chosen expert's output is multiplied by, before `scale`.
enum class RouterWeight : uint8_t {
  kScore,            // s
  kNormalized,       // s / max(sum of the chosen s, min_sum)
  kSoftmaxOfChosen,  // the softmax over the chosen logits alone; chosen by l
  // Phi-3.5-MoE's SparseMixer (arXiv 2409.12136): two experts, chosen by l; each weight is the
  // softmax over the logits that are not below the pick's by more than a share of `jitter`.
  kSparseMixer,
  kLogit,  // l, chosen by l
};

// How the score of a group is made of the c of its experts.
enum class GroupScore : uint8_t { kMax, kSumOfTwo };

struct RouterSpec {
  int32_t num_experts = 0;        // X
  int32_t experts_per_token = 0;  // k, in [1, X]
  RouterScore score = RouterScore::kSoftmax;
  RouterWeight weight = RouterWeight::kScore;
  float min_sum = 0.0f;
  float scale = 1.0f;   // on every weight
  float jitter = 0.0f;  // of kSparseMixer
  // X / num_groups experts next to each other are a group.
  int32_t num_groups = 1;
  int32_t groups_per_token = 1;
  GroupScore group_score = GroupScore::kMax;

  friend bool operator==(const RouterSpec&, const RouterSpec&) = default;
};

inline constexpr int32_t kMaxExperts = 4096;
inline constexpr int32_t kMaxExpertsPerToken = 64;

struct RouteTokensParams {
  const float* logits = nullptr;  // [T, X]
  // [X] or null: is added to the scores for the choice alone, with kScore and kNormalized.
  const float* bias = nullptr;
  RouterSpec router = {};
  int32_t* expert_ids = nullptr;    // [T, k], out
  float* expert_weights = nullptr;  // [T, k], out
  // [X] or null: what the weight of each chosen expert is multiplied by besides.
  const float* expert_scale = nullptr;
  // [T] or null: of kLogit with one expert per token. The logit goes here, and the weight is 1.
  float* chosen_logits = nullptr;
  int64_t num_tokens = 0;
};
void route_tokens(Stream& stream, const RouteTokensParams& params);

}  // namespace quire
