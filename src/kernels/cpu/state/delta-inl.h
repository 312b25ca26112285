// The gated delta rule on up to 32 columns of a head. With S the state before token t,
//   p = sum_n S[n] k'[n],  r = sum_n S[n] q'[n],  u = beta (v - p),  out = r + (k . q) u,
// where k' and q' are k and q times the token's decay. So one pass over the state both updates it
// by a token and computes the sums of the next token. A decay that is one number multiplies the
// sums instead.
#pragma once

#include "kernels/cpu/simd/simd-inl.h"
#include "kernels/cpu/state/state-inl.h"
#include "kernels/cpu/state/state_kernels.h"

namespace quire {
namespace {

constexpr int64_t kMaxKeyDim = 256;

// The values of a token that the passes need.
struct DeltaToken {
  const float* k;
  const float* decay;  // one number, or one per channel
  const float* sum_k;  // k'
  const float* sum_q;  // q'
  float key_query;     // k . q
};

struct DeltaScratch {
  float k[kMaxKeyDim], q[kMaxKeyDim];
};

template <bool kChannels>
QUIRE_SIMD DeltaToken read_token(const DeltaColumns& args, int64_t t, DeltaScratch& scratch) {
  const float* k = args.k + t * args.qkv_stride;
  const float* q = args.q + t * args.qkv_stride;
  const float* decay = args.decay + t * args.decay_stride;
  F16 dot = zero();
  for (int64_t n = 0; n < args.key_dim; n += 16) {
    const int64_t left = args.key_dim - n;
    const F16 key = load_lanes(k + n, left);
    const F16 query = load_lanes(q + n, left);
    dot = fma(key, query, dot);
    if (!kChannels) continue;
    const F16 share = load_lanes(decay + n, left);
    store(scratch.k + n, mul(share, key));
    store(scratch.q + n, mul(share, query));
  }
  return {k, decay, kChannels ? scratch.k : k, kChannels ? scratch.q : q, reduce_add(dot)};
}

template <int G>
struct DeltaSums {
  F16 key[G], query[G];
};

template <int G>
QUIRE_SIMD DeltaSums<G> no_sums() {
  DeltaSums<G> sums;
#pragma GCC unroll 16
  for (int g = 0; g < G; ++g) sums.key[g] = sums.query[g] = zero();
  return sums;
}

template <int G>
QUIRE_SIMD void add_to_sums(const DeltaToken& token, int64_t n, const F16* s, DeltaSums<G>& sums) {
  const F16 key = set1(token.sum_k[n]);
  const F16 query = set1(token.sum_q[n]);
#pragma GCC unroll 16
  for (int g = 0; g < G; ++g) {
    sums.key[g] = fma(s[g], key, sums.key[g]);
    sums.query[g] = fma(s[g], query, sums.query[g]);
  }
}

template <int G>
static DeltaSums<G> sum_state(const DeltaToken& token, int64_t key_dim, const float* in) {
  DeltaSums<G> sums = no_sums<G>();
  for (int64_t n = 0; n < key_dim && in != nullptr; ++n) {
    F16 s[G];
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) s[g] = load(in + (n * G + g) * 16);
    add_to_sums<G>(token, n, s, sums);
  }
  return sums;
}

// Updates the state by `token`, and computes the sums of `next` if it is not null.
template <int G, bool kChannels, bool kSums>
static DeltaSums<G> move_state(const DeltaToken& token, const F16* u, const DeltaToken& next,
                               int64_t key_dim, const float* in, float* out) {
  DeltaSums<G> sums = no_sums<G>();
  const F16 decay = set1(token.decay[0]);
  for (int64_t n = 0; n < key_dim; ++n) {
    const F16 share = kChannels ? set1(token.decay[n]) : decay;
    const F16 key = set1(token.k[n]);
    F16 s[G];
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) {
      const int64_t at = (n * G + g) * 16;
      s[g] = fma(key, u[g], in == nullptr ? zero() : mul(share, load(in + at)));
      store(out + at, s[g]);
    }
    if (kSums) add_to_sums<G>(next, n, s, sums);
  }
  return sums;
}

template <int G, bool kChannels>
static void delta_segment(const DeltaColumns& args, int32_t segment) {
  float unkept[G * kMaxKeyDim * 16];
  DeltaScratch scratch[2];
  const SegmentState state = state_of(args.segments, segment);
  float* const out = state.out == nullptr ? unkept : state.out;
  const float* in = state.in;
  const int64_t begin = args.segments.start_loc[segment];
  const int64_t end = args.segments.start_loc[segment + 1];
  DeltaToken token = read_token<kChannels>(args, begin, scratch[begin % 2]);
  DeltaSums<G> sums = sum_state<G>(token, args.key_dim, in);
  for (int64_t t = begin; t < end; ++t, in = out) {
    prefetch_row(args.v, args.qkv_stride, t, end, args.count);
    prefetch_row(args.out, args.out_stride, t, end, args.count);
    const float share = kChannels ? 1.0f : token.decay[0];
    const F16 beta = set1(args.beta[t * args.beta_stride]);
    F16 u[G];
#pragma GCC unroll 16
    for (int g = 0; g < G; ++g) {
      const int64_t left = args.count - 16 * g;
      const F16 v = load_lanes(args.v + t * args.qkv_stride + 16 * g, left);
      u[g] = mul(beta, sub(v, mul(set1(share), sums.key[g])));
      const F16 y = fma(set1(token.key_query), u[g], mul(set1(share), sums.query[g]));
      store_lanes(args.out + t * args.out_stride + 16 * g, y, left);
    }
    if (t + 1 == end) {
      move_state<G, kChannels, false>(token, u, token, args.key_dim, in, out);
      return;
    }
    const DeltaToken next = read_token<kChannels>(args, t + 1, scratch[(t + 1) % 2]);
    sums = move_state<G, kChannels, true>(token, u, next, args.key_dim, in, out);
    token = next;
  }
}

template <int G, bool kChannels>
static void delta_segments(const DeltaColumns& args) {
  for (int32_t s = 0; s < args.segments.num_segments; ++s) delta_segment<G, kChannels>(args, s);
}

static void delta_columns(const DeltaColumns& args) {
  if (args.has_channel_decay) {
    return args.count > 16 ? delta_segments<2, true>(args) : delta_segments<1, true>(args);
  }
  return args.count > 16 ? delta_segments<2, false>(args) : delta_segments<1, false>(args);
}

}  // namespace
}  // namespace quire
