#include "base/nearest_name.h"

#include <algorithm>
#include <vector>

namespace quire {
namespace {

std::string letters(std::string_view name) {
  std::string text(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// Returns the optimal string alignment: the edit distance in which swapping two neighbours is one
// edit. Three rows of its table are enough.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view typed,
                                        std::span<const std::string> names) {
  constexpr size_t kLongestName = 64;  // a longer text is not a mistyped name
  const std::string wanted = letters(typed);
  if (wanted.size() > kLongestName) return std::nullopt;
  std::optional<std::string> best;
  size_t least = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(wanted, letters(name));
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> names) {
  const std::optional<std::string> meant = nearest_name(typed, names);
  return meant && *meant != typed ? "; did you mean " + *meant + "?" : std::string();
}

}  // namespace quire
