// route_tokens(): one warp per token. It keeps the scores of all experts in shared memory; lane i
// handles experts i, i + 32, …. Each pick is two reductions over the warp, after which only the
// lane that had the picked expert looks for its next best.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ops.h"

namespace quire::cuda {
namespace {

struct RouterArgs {
  const float* logits = nullptr;
  const float* bias = nullptr;
  const float* expert_scale = nullptr;
  float* chosen_logits = nullptr;
  RouterSpec router;
  int32_t* expert_ids = nullptr;
  float* expert_weights = nullptr;
};

// The arrays of one token, in shared memory.
struct TokenScores {
  float* scores;   // [X]
  float* choice;   // [X]; minus infinity: excluded, or picked already
  float* groups;   // [G]
  float* weights;  // [k]

  static QUIRE_DEVICE TokenScores at(uint8_t* memory, const RouterSpec& router) {
    auto* floats = reinterpret_cast<float*>(memory);
    TokenScores token;
    token.scores = floats;
    token.choice = token.scores + router.num_experts;
    token.groups = token.choice + router.num_experts;
    token.weights = token.groups + router.num_groups;
    return token;
  }
  static int64_t num_bytes(const RouterSpec& router) {
    return (int64_t{2} * router.num_experts + router.num_groups + router.experts_per_token) * 4;
  }
};

QUIRE_DEVICE int lane() { return ptx::thread_index() % 32; }

// Maps floats to integers with the same order, in which both zeros are equal.
QUIRE_DEVICE uint32_t ordered(float x) {
  const uint32_t bits = ptx::float_to_bits(ptx::add(x, 0.0f));
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

// Picks the greatest of `values` one after another; among equals, the first.
class Picker {
 public:
  QUIRE_DEVICE Picker(float* values, int count) : values_(values), count_(count) { look(); }

  // Returns the index of the pick in every lane, and its value in `value`. It is not picked again.
  QUIRE_DEVICE int pick(float& value) {
    const uint32_t most = ptx::reduce_max(key_);
    const int at =
        static_cast<int>(ptx::reduce_min(key_ == most ? static_cast<uint32_t>(at_) : 0xffffffffu));
    value = values_[at];
    ptx::sync_warp();
    if (at % 32 == lane()) {
      values_[at] = -ptx::infinity();
      look();
    }
    ptx::sync_warp();
    return at;
  }

 private:
  QUIRE_DEVICE void look() {
    key_ = 0;
    at_ = lane();  // a valid index, in case all values are NaN
    for (int i = lane(); i < count_; i += 32) {
      const uint32_t key = ordered(values_[i]);
      if (key > key_) {
        key_ = key;
        at_ = i;
      }
    }
  }

  float* values_;
  int count_;
  uint32_t key_ = 0;
  int at_ = 0;
};

QUIRE_DEVICE bool chooses_by_logit(RouterWeight weight) {
  return weight == RouterWeight::kSoftmaxOfChosen || weight == RouterWeight::kSparseMixer ||
         weight == RouterWeight::kLogit;
}

QUIRE_DEVICE void score(const RouterArgs& args, const float* logits, const TokenScores& token) {
  const int count = args.router.num_experts;
  const bool by_logit = chooses_by_logit(args.router.weight);
  if (by_logit) {
    for (int i = lane(); i < count; i += 32) token.scores[i] = logits[i];
  } else if (args.router.score == RouterScore::kSigmoid) {
    for (int i = lane(); i < count; i += 32)
      token.scores[i] = ptx::divide(1.0f, ptx::add(1.0f, expf(-logits[i])));
  } else {
    float most = -ptx::infinity();
    for (int i = lane(); i < count; i += 32) most = ptx::max(most, logits[i]);
    most = warp_max(most);
    float sum = 0.0f;
    for (int i = lane(); i < count; i += 32)
      sum = ptx::add(sum, token.scores[i] = expf(ptx::add(logits[i], -most)));
    sum = warp_sum(sum);
    for (int i = lane(); i < count; i += 32) token.scores[i] = ptx::divide(token.scores[i], sum);
  }
  for (int i = lane(); i < count; i += 32) {
    const float bias = args.bias != nullptr ? args.bias[i] : 0.0f;
    token.choice[i] = ptx::add(token.scores[i], bias);
  }
  ptx::sync_warp();
}

QUIRE_DEVICE float group_score(const float* choice, int size, GroupScore kind) {
  float first = -ptx::infinity(), second = first;
  for (int i = 0; i < size; ++i) {
    second = ptx::max(second, ptx::min(first, choice[i]));
    first = ptx::max(first, choice[i]);
  }
  return kind == GroupScore::kSumOfTwo && size > 1 ? ptx::add(first, second) : first;
}

// Excludes experts outside of the best groups.
QUIRE_DEVICE void keep_best_groups(const RouterSpec& router, const TokenScores& token) {
  const int size = router.num_experts / router.num_groups;
  for (int group = lane(); group < router.num_groups; group += 32)
    token.groups[group] = group_score(token.choice + group * size, size, router.group_score);
  ptx::sync_warp();
  Picker groups(token.groups, router.num_groups);
  float unused;
  for (int i = 0; i < router.groups_per_token; ++i) groups.pick(unused);
  // The picked groups have become minus infinity.
  for (int i = lane(); i < router.num_experts; i += 32)
    if (token.groups[i / size] != -ptx::infinity()) token.choice[i] = -ptx::infinity();
  ptx::sync_warp();
}

// Returns the weight of `pick`, whose logit `most` is the greatest of those left. `choice` has the
// others that are left, and minus infinity for the pick.
QUIRE_DEVICE float sparse_mixer_weight(const RouterArgs& args, const TokenScores& token, float most,
                                       int pick) {
  float sum = 0.0f;
  for (int i = lane(); i < args.router.num_experts; i += 32) {
    const float logit = token.scores[i];
    const float behind =
        ptx::divide(ptx::add(most, -logit), ptx::max(ptx::max(logit, -logit), most));
    const float left = i == pick ? most : token.choice[i];
    if (behind <= 2.0f * args.router.jitter) sum = ptx::add(sum, expf(ptx::add(left, -most)));
  }
  return ptx::divide(1.0f, warp_sum(sum));
}

QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(32, 1) route_tokens_kernel(const RouterArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const RouterSpec& router = args.router;
  const int64_t row = ptx::block_index();
  const TokenScores token = TokenScores::at(ptx::shared_memory(), router);
  score(args, args.logits + row * router.num_experts, token);
  if (router.num_groups > 1) keep_best_groups(router, token);
  Picker experts(token.choice, router.num_experts);
  int32_t* ids = args.expert_ids + row * router.experts_per_token;
  float first = 0.0f, sum = 0.0f;
  for (int j = 0; j < router.experts_per_token; ++j) {
    float most;
    const int id = experts.pick(most);
    float weight = token.scores[id];  // the logit, if logits are the scores
    if (j == 0) first = weight;
    if (router.weight == RouterWeight::kSoftmaxOfChosen) weight = expf(ptx::add(weight, -first));
    if (router.weight == RouterWeight::kSparseMixer)
      weight = sparse_mixer_weight(args, token, most, id);
    sum = ptx::add(sum, weight);
    if (lane() != 0) continue;
    ids[j] = id;
    token.weights[j] = weight;
  }
  ptx::sync_warp();
  if (router.weight == RouterWeight::kNormalized) sum = ptx::max(sum, router.min_sum);
  const bool divides =
      router.weight == RouterWeight::kNormalized || router.weight == RouterWeight::kSoftmaxOfChosen;
  for (int j = lane(); j < router.experts_per_token; j += 32) {
    float weight = token.weights[j];
    if (divides) weight = ptx::divide(weight, sum);
    weight = ptx::multiply(weight, router.scale);
    if (args.expert_scale != nullptr) weight = ptx::multiply(weight, args.expert_scale[ids[j]]);
    if (args.chosen_logits != nullptr) {
      args.chosen_logits[row] = weight;
      weight = 1.0f;
    }
    args.expert_weights[row * router.experts_per_token + j] = weight;
  }
}

}  // namespace

void route_tokens(Stream& stream, const RouteTokensParams& p) {
  const RouterSpec& router = p.router;
  QUIRE_CHECK(router.num_experts >= 1 && router.num_experts <= kMaxExperts &&
                  router.experts_per_token >= 1 && router.experts_per_token <= router.num_experts &&
                  router.experts_per_token <= kMaxExpertsPerToken && router.num_groups >= 1 &&
                  router.num_experts % router.num_groups == 0 && router.groups_per_token >= 1 &&
                  router.groups_per_token <= router.num_groups,
              "[route_tokens] {} of {} experts, {} of {} groups", router.experts_per_token,
              router.num_experts, router.groups_per_token, router.num_groups);
  const RouterArgs args{.logits = p.logits,
                        .bias = p.bias,
                        .expert_scale = p.expert_scale,
                        .chosen_logits = p.chosen_logits,
                        .router = router,
                        .expert_ids = p.expert_ids,
                        .expert_weights = p.expert_weights};
  launch<route_tokens_kernel>(stream,
                              {.num_blocks = p.num_tokens,
                               .num_threads = 32,
                               .shared_bytes = TokenScores::num_bytes(router)},
                              args);
}

}  // namespace quire::cuda
