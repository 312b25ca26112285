#include "sample/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr int kBucketBits = 11;
constexpr int32_t kSampleFrom = 256;             // for fewer, the chunks' greatest values tell more
constexpr size_t kSampledRow = size_t{1} << 14;  // for smaller rows, a part tells too little

// Maps floats (no NaN) to integers of the same order.
uint32_t order_key(float x) {
  const float positive_zero = x + 0.0f;  // -0 and 0 are equal
  const auto bits = std::bit_cast<uint32_t>(positive_zero);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Finds the n-th greatest of the chunks' greatest values: at least n tokens are at least as great.
void collect_from_chunks(const ScannedRow& row, size_t n, std::vector<Candidate>& out) {
  for (const float x : row.chunk_max) out.push_back({x, 0});
  const auto nth = out.begin() + static_cast<std::ptrdiff_t>(n - 1);
  std::nth_element(out.begin(), nth, out.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  const float low = nth->value;
  out.clear();
  row.for_each_from(low, [&](size_t token, float value) {
    out.push_back({value, static_cast<TokenId>(token)});
  });
}

// Returns all values that are at least as great as a bound, which is guessed from a part of the
// row: at least n, and very probably few more.
std::span<float> collect_by_sample(RowScanner& scanner, const ScannedRow& row, size_t n) {
  constexpr size_t kStride = 32;  // of chunks
  constexpr double kDeviations = 4;
  const std::span<float> part = scanner.sample(row, kStride);
  const double expected = static_cast<double>(n) * static_cast<double>(part.size()) /
                          static_cast<double>(row.row.size());
  const auto place = static_cast<size_t>(expected + kDeviations * std::sqrt(expected));
  if (place >= part.size()) return {};
  const auto low = part.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(part.begin(), low, part.end(), std::greater<>());
  if (!std::isfinite(*low)) return {};
  constexpr LogitScale kAsIs;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return scanner.collect(row, kAsIs, {.low = *low, .below = kInfinity});
}

// Counts values by their leading bits and collects the buckets that hold the best n.
void collect_by_buckets(std::span<const float> row, size_t n, std::vector<Candidate>& out) {
  std::array<uint32_t, size_t{1} << kBucketBits> counts{};
  for (const float x : row) ++counts[order_key(x) >> (32 - kBucketBits)];
  size_t bucket = counts.size();
  for (size_t total = 0; total < n;) total += counts[--bucket];
  for (size_t i = 0; i < row.size(); ++i) {
    if (order_key(row[i]) >> (32 - kBucketBits) >= bucket) {
      out.push_back({row[i], static_cast<TokenId>(i)});
    }
  }
}

// Collects the best n in no particular order.
void collect_top(const ScannedRow& row, size_t n, std::vector<Candidate>& out) {
  out.clear();
  if (n == 0) return;
  if (n <= row.chunk_max.size()) {
    collect_from_chunks(row, n, out);
  } else {
    collect_by_buckets(row.row, n, out);
  }
  const auto end = out.begin() + static_cast<std::ptrdiff_t>(n);
  if (end != out.end()) std::nth_element(out.begin(), end, out.end(), ranks_before);
  out.resize(n);
}

float median(float a, float b, float c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace

void select_top(const ScannedRow& row, int32_t n, std::vector<Candidate>& out) {
  QUIRE_CHECK(n >= 0);
  collect_top(row, std::min(static_cast<size_t>(n), row.row.size()), out);
  std::sort(out.begin(), out.end(), ranks_before);
}

float kth_greatest(RowScanner& scanner, const ScannedRow& row, int32_t k,
                   std::vector<Candidate>& scratch) {
  QUIRE_CHECK(k >= 1 && static_cast<size_t>(k) <= row.row.size(), "k {} of {}", k, row.row.size());
  if (k >= kSampleFrom && row.row.size() >= kSampledRow) {
    const std::span<float> values = collect_by_sample(scanner, row, static_cast<size_t>(k));
    if (values.size() >= static_cast<size_t>(k)) {
      const auto kth = values.begin() + (k - 1);
      std::nth_element(values.begin(), kth, values.end(), std::greater<>());
      return *kth;
    }
  }
  collect_top(row, static_cast<size_t>(k), scratch);
  return std::max_element(scratch.begin(), scratch.end(), ranks_before)->value;
}

float mass_threshold(std::span<WeightedValue> items, double target) {
  QUIRE_CHECK(!items.empty());
  constexpr size_t kSortBelow = 32;
  double above = 0;  // weight of the items left of `rest`, which all have greater values
  std::span<WeightedValue> rest = items;
  float smallest = items[0].value;
  while (rest.size() > kSortBelow) {
    const float pivot = median(rest.front().value, rest[rest.size() / 2].value, rest.back().value);
    // [ greater | equal | not compared yet | smaller ]
    size_t greater = 0, equal = 0, smaller = rest.size();
    double greater_weight = 0, equal_weight = 0;
    while (equal < smaller) {
      if (rest[equal].value > pivot) {
        greater_weight += static_cast<double>(rest[equal].weight);
        std::swap(rest[greater++], rest[equal++]);
      } else if (rest[equal].value == pivot) {
        equal_weight += static_cast<double>(rest[equal++].weight);
      } else {
        std::swap(rest[equal], rest[--smaller]);
      }
    }
    if (above + greater_weight >= target && greater > 0) {
      rest = rest.first(greater);
      continue;
    }
    above += greater_weight + equal_weight;
    if (above >= target) return pivot;
    smallest = pivot;
    rest = rest.subspan(equal);
  }
  std::sort(rest.begin(), rest.end(),
            [](const WeightedValue& a, const WeightedValue& b) { return a.value > b.value; });
  for (const WeightedValue& item : rest) {
    above += static_cast<double>(item.weight);
    smallest = item.value;
    if (above >= target) break;
  }
  return smallest;
}

}  // namespace quire
