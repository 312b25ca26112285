// Vector exp, tanh, erfc. Errors against double are measured in element_test.cc.
#pragma once

#include "kernels/cpu/simd/simd-inl.h"

namespace quire {
namespace {

// Returns e^x with a relative error <= 2 ulp. It is exactly 1 at 0, exactly 0 below -87.33 (where
// results would be subnormal) and infinity above 88.72; NaN stays NaN. x = n ln2 + r with |r| <=
// ln2 / 2, and the Taylor series of e^r to r^7 (remainder < 6e-9).
QUIRE_SIMD F16 exp(F16 x) {
  const F16 lo = set1(-87.33f);
  const F16 hi = set1(88.72f);
  const F16 clamped = max(lo, min(hi, x));  // in this order NaN stays NaN
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const F16 round = set1(12582912.0f);
  const F16 n = sub(fma(clamped, set1(1.44269504f), round), round);
  F16 r =
      fma(n, set1(-0.693145751953125f), clamped);  // this part of ln2 has 16 bits: exact product
  r = fma(n, set1(-1.42860682e-6f), r);
  F16 p = set1(1.0f / 5040.0f);
  p = fma(p, r, set1(1.0f / 720.0f));
  p = fma(p, r, set1(1.0f / 120.0f));
  p = fma(p, r, set1(1.0f / 24.0f));
  p = fma(p, r, set1(1.0f / 6.0f));
  p = fma(p, r, set1(0.5f));
  p = add(fma(mul(r, r), p, r), set1(1.0f));
  F16 y = scale_pow2(p, n);
  y = select_less(x, lo, zero(), y);
  return select_less(hi, x, set1(__builtin_inff()), y);
}

// Returns 2^x for x <= 0 with a relative error <= 2e-7. It is exactly 1 at 0 and exactly 0 from x =
// -200 down (with minus infinity); NaN stays NaN. 2^f for |f| <= 1/2 is the polynomial of degree 5
// whose largest relative error is the smallest (9e-8 in exact arithmetic).
QUIRE_SIMD F16 exp2_flushed(F16 x) {
  const F16 clamped = max(set1(-200.0f), x);  // in this order NaN stays NaN
  const F16 n = round_to_integer(clamped);
  const F16 f = sub(clamped, n);
  F16 p = set1(0.001326472731f);
  p = fma(p, f, set1(0.009671512991f));
  p = fma(p, f, set1(0.05550733581f));
  p = fma(p, f, set1(0.2402224243f));
  p = fma(p, f, set1(0.6931470037f));
  p = fma(p, f, set1(1.0f));
  return scale_pow2_flushed(p, n);
}

// Returns tanh(x) with a relative error <= 4 ulp: the odd Taylor series to x^11 for |x| below 0.3,
// and (1 - e^-2|x|) / (1 + e^-2|x|) above.
QUIRE_SIMD F16 tanh(F16 x) {
  const F16 a = abs(x);
  const F16 t = exp(mul(a, set1(-2.0f)));
  const F16 large = div(sub(set1(1.0f), t), add(set1(1.0f), t));
  const F16 z = mul(x, x);
  F16 p = set1(-1382.0f / 155925.0f);
  p = fma(p, z, set1(62.0f / 2835.0f));
  p = fma(p, z, set1(-17.0f / 315.0f));
  p = fma(p, z, set1(2.0f / 15.0f));
  p = fma(p, z, set1(-1.0f / 3.0f));
  const F16 small = fma(mul(p, z), a, a);
  return copy_sign(select_less(a, set1(0.3f), small, large), x);
}

// x / (1 + e^-x)
QUIRE_SIMD F16 silu(F16 x) { return div(x, add(set1(1.0f), exp(sub(zero(), x)))); }

// x / (1 + e^-1.702x)
QUIRE_SIMD F16 quick_gelu(F16 x) { return div(x, add(set1(1.0f), exp(mul(x, set1(-1.702f))))); }

// 0.5 x (1 + tanh u) = x / (1 + e^-2u): no cancellation for negative x.
QUIRE_SIMD F16 gelu_tanh(F16 x) {
  const F16 z = mul(x, x);
  const F16 u = mul(x, fma(z, set1(0.044715f), set1(1.0f)));
  return div(x, add(set1(1.0f), exp(mul(u, set1(-2.0f * 0.7978845608f)))));
}

// Returns x Phi(x), where Phi(x) = erfc(-x / sqrt 2) / 2. For z >= 0, erfc(z) = t P(t) e^-z^2 with
// t = 1 / (1 + 0.4 z) and P of degree 10, fitted to z in [0, 10] (relative error 3.2e-9 in exact
// arithmetic). Negative z follow by symmetry.
QUIRE_SIMD F16 gelu_erf(F16 x) {
  const F16 z = mul(abs(x), set1(0.7071067812f));
  const F16 t = div(set1(1.0f), fma(z, set1(0.4f), set1(1.0f)));
  F16 p = set1(-0.015634173527359962f);
  p = fma(p, t, set1(0.06122056022286415f));
  p = fma(p, t, set1(-0.03318062424659729f));
  p = fma(p, t, set1(-0.1597522497177124f));
  p = fma(p, t, set1(0.23080027103424072f));
  p = fma(p, t, set1(-0.08798100799322128f));
  p = fma(p, t, set1(0.19027908146381378f));
  p = fma(p, t, set1(0.1522299349308014f));
  p = fma(p, t, set1(0.21098405122756958f));
  p = fma(p, t, set1(0.2253441959619522f));
  p = fma(p, t, set1(0.22568996250629425f));
  const F16 half_erfc = mul(mul(mul(p, t), exp(sub(zero(), mul(z, z)))), set1(0.5f));
  const F16 phi = select_less(x, zero(), half_erfc, sub(set1(1.0f), half_erfc));
  return mul(x, phi);
}

}  // namespace
}  // namespace quire
