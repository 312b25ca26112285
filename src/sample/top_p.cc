#include "sample/top_p.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/sampling/vector_math.h"

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kPlaces = 8;
constexpr size_t kSampleStride = 32;      // of the chunks, one in this many is read for a guess
constexpr size_t kSampleFrom = 1u << 14;  // shorter rows are searched as a whole
constexpr float kNarrow = 1.0f / 32;      // a few thousand of 150,000 tokens at most
constexpr float kBandParts = 64;          // a guessed band is narrowed to this fraction

using Places = std::array<float, kPlaces>;  // descending
using Masses = std::array<double, kPlaces>;

// A band of scaled logits in which the mass of all tokens at or above a logit crosses a target:
// mass(low) >= target > mass(high) = mass_at_high.
struct Band {
  float low;
  float high;
  double mass_at_high;
};

Places places_inside(float low, float high) {
  Places places;
  const float step = (high - low) / (kPlaces + 1);
  for (size_t i = 0; i < kPlaces; ++i) places[i] = high - step * static_cast<float>(i + 1);
  return places;
}

Masses mass_above(const RowKernels& kernels, std::span<const float> row, LogitScale scale,
                  const Places& places) {
  Masses mass;
  kernels.mass_above(row.data(), static_cast<int64_t>(row.size()), scale, places.data(),
                     mass.data());
  return mass;
}

// Narrows a band by computing the mass at 8 places inside it at a time.
Band narrow(const RowKernels& kernels, std::span<const float> row, LogitScale scale, double target,
            Band band, float narrow_enough) {
  constexpr int kMaxRounds = 6;
  for (int round = 0; round < kMaxRounds && band.high - band.low > narrow_enough; ++round) {
    const Places places = places_inside(band.low, band.high);
    const Masses mass = mass_above(kernels, row, scale, places);
    for (size_t i = 0; i < kPlaces; ++i) {
      if (mass[i] >= target) {
        band.low = places[i];
        break;
      }
      band.high = places[i];
      band.mass_at_high = mass[i];
    }
  }
  return band;
}

}  // namespace

// In most rows, the tokens that hold at least a thousandth of the mass each decide. In others, the
// set ends in a narrow band, which is guessed from a part of the row and then weighed exactly.
float TopP::cut_off(RowScanner& scanner, const ScannedRow& row, LogitScale scale, float top_p,
                    float threshold) {
  const double total = scanner.weigh(row, scale, threshold);
  const double target = static_cast<double>(top_p) * total;
  const float likely = std::max(threshold, static_cast<float>(std::log(total) - std::log(1024.0)));
  gather(scanner, row, scale, {.low = likely, .below = kInfinity});
  double mass = 0;
  for (const WeightedValue& item : weighted_) mass += static_cast<double>(item.weight);
  if (mass >= target && !weighted_.empty()) return mass_threshold(weighted_, target);
  // All tokens there are; they fall short by rounding only.
  if (likely == threshold) return threshold;

  // All tokens below `rest` together weigh less than 1 - top_p of the total.
  const double spare = (1.0 - static_cast<double>(top_p)) * total;
  const double rest = std::log(spare / static_cast<double>(row.row.size()) * 0.5);
  const float low = std::max(threshold, static_cast<float>(std::max(rest, -87.0)));
  if (low >= likely) return threshold;
  if (row.row.size() >= kSampleFrom) {
    const ScaledRange range = guess(scanner, row, scale, spare, {.low = low, .below = likely});
    const RowScanner::Split split = scanner.split(row, scale, range);
    if (split.mass_above < target && target <= split.mass_above + split.mass_inside) {
      return resolve(split.inside, target - split.mass_above, range);
    }
  }
  const Band band = narrow(scanner.kernels(), row.row, scale, target,
                           {.low = low, .high = likely, .mass_at_high = mass}, kNarrow);
  gather(scanner, row, scale, {.low = band.low, .below = band.high});
  return weighted_.empty() ? band.low : mass_threshold(weighted_, target - band.mass_at_high);
}

// Collects all tokens within `range`, and their weights.
void TopP::gather(RowScanner& scanner, const ScannedRow& row, LogitScale scale, ScaledRange range) {
  const std::span<const float> found = scanner.collect(row, scale, range);
  weighted_.clear();
  weighted_.reserve(row.row.size());  // once: no other row of the vocabulary needs more
  for (const float scaled : found) weighted_.push_back({scaled, exp_nonpositive(scaled)});
}

// Returns the band in which, very probably, the tokens below a logit weigh `spare`. These are many
// and light, so that a part of the row suffices: the weight that it gives below x has a standard
// deviation of at most sqrt(that * e^x).
ScaledRange TopP::guess(RowScanner& scanner, const ScannedRow& row, LogitScale scale, double spare,
                        ScaledRange range) {
  constexpr double kDeviations = 4;
  constexpr float kWorthwhile = 0.6f;
  constexpr int kMaxRounds = 5;
  const std::span<const float> part = scanner.sample(row, kSampleStride);
  const double total = scanner.weighed(kSampleStride);
  const double wanted =
      spare * static_cast<double>(part.size()) / static_cast<double>(row.row.size());
  for (int round = 0; round < kMaxRounds; ++round) {
    const float width = range.below - range.low;
    const Places places = places_inside(range.low, range.below);
    const Masses mass = mass_above(scanner.kernels(), part, scale, places);
    for (size_t i = 0; i < kPlaces; ++i) {
      const double below = std::max(0.0, total - mass[i]);
      const double doubt =
          kDeviations * std::sqrt(below * static_cast<double>(exp_nonpositive(places[i])));
      if (below > wanted + doubt) {
        range.below = places[i];
      } else if (below + doubt < wanted) {
        range.low = places[i];
        break;
      }
    }
    if (range.below - range.low > width * kWorthwhile) break;
  }
  return range;
}

// Finds the cut among all values of a range.
float TopP::resolve(std::span<const float> values, double target, ScaledRange range) {
  const ScannedRow row = band_scanner_.scan(values);
  constexpr LogitScale kAsIs;
  const Band band = narrow(band_scanner_.kernels(), values, kAsIs, target,
                           {.low = range.low, .high = range.below, .mass_at_high = 0},
                           (range.below - range.low) / kBandParts);
  gather(band_scanner_, row, kAsIs, {.low = band.low, .below = band.high});
  return weighted_.empty() ? band.low : mass_threshold(weighted_, target - band.mass_at_high);
}

}  // namespace quire
