// Finds where min_p, top_k and top_p cut a row, without a sort: it makes a histogram of the values
// that may still be the cut, over ranges that get 2000 times finer each time, until a range is a
// single float.
//
// A value's key is the bits of minus its scaled logit: the likeliest token has key 0, and keys
// ascend as probabilities descend. Mass is counted in units of 2^-44 of the likeliest token's mass.
// Sums are integers and exact, so their order does not matter.
#pragma once

#include "kernels/cuda/sampling/sampler_device.h"

namespace quire::cuda {

inline constexpr uint32_t kInfiniteKey = 0x7f800000u;  // the key of forbidden tokens

QUIRE_DEVICE uint32_t key_of(float scaled) { return ptx::float_to_bits(scaled) & 0x7fffffffu; }
QUIRE_DEVICE float scaled_of(uint32_t key) { return -ptx::bits_to_float(key); }
QUIRE_DEVICE uint64_t mass_of(float scaled) {
  return static_cast<uint64_t>(ptx::multiply(exp_nonpositive(scaled), 0x1p44f));
}

// Keys [begin, end) in bins of 2^shift keys from `first` on; keys before `first` are in bin 0.
struct KeyBins {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t first = 0;
  int shift = 0;
  int count = 0;

  QUIRE_HOST_DEVICE int bin(uint32_t key) const {
    if (key < first) return 0;
    const auto bin = static_cast<int>((key - first) >> shift) + 1;
    return bin < count ? bin : count - 1;
  }
  QUIRE_HOST_DEVICE uint32_t bin_begin(int bin) const {
    return bin == 0 ? begin : first + (static_cast<uint32_t>(bin - 1) << shift);
  }
  QUIRE_HOST_DEVICE uint32_t bin_end(int bin) const {
    return bin + 1 == count ? end : first + (static_cast<uint32_t>(bin) << shift);
  }
};

// A wide range gets 128 bins per power of two of the scaled logit from 2^-10 to 128, where cuts
// usually are.
QUIRE_HOST_DEVICE inline KeyBins make_bins(uint32_t begin, uint32_t end) {
  constexpr uint32_t kLow = 0x3a800000u, kHigh = 0x43000000u;
  constexpr int kWideShift = 16;
  static_assert(2 + ((kHigh - kLow) >> kWideShift) <= kMaxBins);
  if (begin < kLow && end > kHigh)
    return {begin, end, kLow, kWideShift, 2 + static_cast<int>((kHigh - kLow) >> kWideShift)};
  int shift = 0;
  while (((end - 1 - begin) >> shift) + 2 > kMaxBins) ++shift;
  return {begin, end, begin, shift, static_cast<int>((end - 1 - begin) >> shift) + 2};
}

// Counts the row's values, and adds up their mass, by bin.
QUIRE_DEVICE void fill_bins(const LogitsRow& row, const KeyBins& bins, SampleMemory& memory) {
  for (int i = ptx::thread_index(); i < bins.count; i += ptx::block_threads())
    memory.counts[i] = memory.mass_low[i] = memory.mass_high[i] = 0;
  ptx::sync_threads();
  for_each_chunk(row.num_chunks(), [&](int chunk, int64_t first, bool is_inside) {
    if (!is_inside || key_of(row.scaled(row.chunk_max[chunk])) >= bins.end) return;
    float x[4];
    load_four(row.values, first, row.size, x);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scaled = row.scaled(x[i]);
      const uint32_t key = key_of(scaled);
      if (first + i >= row.size || key < bins.begin || key >= bins.end) continue;
      const int bin = bins.bin(key);
      ptx::atomic_add(memory.counts + bin, 1u);
      const uint64_t mass = mass_of(scaled);
      const auto low = static_cast<uint32_t>(mass);
      const uint32_t before = ptx::atomic_add(memory.mass_low + bin, low);
      const uint32_t high = static_cast<uint32_t>(mass >> 32) + (before + low < before ? 1u : 0u);
      if (high != 0) ptx::atomic_add(memory.mass_high + bin, high);
    }
  });
  ptx::sync_threads();
}

enum class CutBy { kCount, kMass };

QUIRE_DEVICE uint64_t bin_amount(const SampleMemory& memory, int bin, CutBy by) {
  return by == CutBy::kCount ? memory.counts[bin]
                             : uint64_t{memory.mass_high[bin]} << 32 | memory.mass_low[bin];
}

QUIRE_DEVICE uint64_t bins_total(const KeyBins& bins, CutBy by, SampleMemory& memory) {
  uint64_t sum = 0;
  for (int i = ptx::thread_index(); i < bins.count; i += ptx::block_threads())
    sum += bin_amount(memory, i, by);
  return block_fold(sum, uint64_t{0}, memory.masses, [](uint64_t a, uint64_t b) { return a + b; });
}

struct Crossing {
  int bin = 0;
  uint64_t before = 0;  // the amount in the bins before it
};

// Returns the first bin at which `before` plus the bins up to it reaches `target`; there is always
// one.
QUIRE_DEVICE Crossing find_crossing(const KeyBins& bins, CutBy by, uint64_t before, double target,
                                    SampleMemory& memory) {
  if (ptx::thread_index() < 32) {
    const int lane = ptx::thread_index();
    Crossing found;
    for (int start = 0; start < bins.count; start += 32) {
      const uint64_t mine =
          start + lane < bins.count ? bin_amount(memory, start + lane, by) : uint64_t{0};
      uint64_t sum = mine;
      for (int delta = 1; delta < 32; delta *= 2) {
        const uint64_t below = ptx::shuffle_up(sum, delta);
        if (lane >= delta) sum += below;
      }
      const bool reaches = static_cast<double>(before + sum) >= target;
      const uint32_t reached = ptx::ballot(reaches && start + lane < bins.count);
      if (reached != 0) {
        const int first = ptx::count_trailing_zeros(reached);
        found = {start + first, before + ptx::shuffle(sum - mine, first)};
        break;
      }
      before += ptx::shuffle(sum, 31);
    }
    if (lane == 0) {
      memory.ints[0] = found.bin;
      memory.masses[0] = found.before;
    }
  }
  ptx::sync_threads();
  const Crossing found{memory.ints[0], memory.masses[0]};
  ptx::sync_threads();
  return found;
}

// Returns the least key such that the tokens with keys in [0, key] reach the target: `share` of the
// mass of all tokens with keys below `end`, or `share` tokens.
QUIRE_DEVICE uint32_t cut_key(const LogitsRow& row, CutBy by, double share, uint32_t end,
                              SampleMemory& memory) {
  KeyBins bins = make_bins(0, end);
  fill_bins(row, bins, memory);
  const double target =
      by == CutBy::kCount ? share : share * static_cast<double>(bins_total(bins, by, memory));
  uint64_t before = 0;
  while (true) {
    const Crossing crossing = find_crossing(bins, by, before, target, memory);
    const uint32_t first = bins.bin_begin(crossing.bin);
    const uint32_t past = bins.bin_end(crossing.bin);
    if (past - first == 1) return first;
    before = crossing.before;
    bins = make_bins(first, past);
    fill_bins(row, bins, memory);
  }
}

// Returns the scaled logit below which min_p, top_k and top_p drop a token.
QUIRE_DEVICE float cut_row(const LogitsRow& row, const SampleRow& sample, SampleMemory& memory) {
  float threshold = sample.min_scaled;
  if (sample.top_k > 0 && sample.top_k < row.size) {
    const uint32_t key = cut_key(row, CutBy::kCount, sample.top_k, kInfiniteKey + 1, memory);
    threshold = ptx::max(threshold, scaled_of(key));
  }
  if (sample.top_p < 1.0f) {
    const uint32_t end = key_of(threshold) + 1;
    threshold = scaled_of(cut_key(row, CutBy::kMass, sample.top_p, end, memory));
  }
  return threshold;
}

}  // namespace quire::cuda
