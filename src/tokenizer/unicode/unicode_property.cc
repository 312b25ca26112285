#include "tokenizer/unicode/unicode_property.h"

#include <algorithm>
#include <string>

#include "tokenizer/unicode/unicode_data.h"

namespace quire {
namespace {

using namespace unicode_internal;

constexpr char32_t kLastCodePoint = 0x10FFFF;

std::string loose(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return out;
}

// Returns the ranges of the runs for which `is_wanted` holds.
template <typename Runs, typename IsWanted>
std::vector<CodePointRange> ranges_of(const Runs& runs, IsWanted&& is_wanted) {
  std::vector<CodePointRange> out;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!is_wanted(runs[i])) continue;
    const char32_t first = run_begin(runs[i]);
    const char32_t last = i + 1 < runs.size() ? run_begin(runs[i + 1]) - 1 : kLastCodePoint;
    if (!out.empty() && out.back().last + 1 == first) {
      out.back().last = last;
    } else {
      out.push_back({first, last});
    }
  }
  return out;
}

// Returns whether `name`, in loose spelling, is a general category: "l", "lu".
bool is_category(std::string_view name) {
  return !name.empty() && name.size() <= 2 &&
         std::any_of(kCategoryNames.begin(), kCategoryNames.end(),
                     [&](std::string_view category) { return loose(category).starts_with(name); });
}

bool is_in_category(uint32_t run, std::string_view name) {
  return loose(kCategoryNames[run_category(run)]).starts_with(name);
}

std::optional<uint32_t> find_script(std::string_view name) {
  for (uint32_t i = 0; i < kScriptNames.size(); ++i) {
    if (loose(kScriptNames[i].name) == name || loose(kScriptNames[i].code) == name) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<CodePointRange>> property_ranges(std::string_view name) {
  const std::string wanted = loose(name);
  if (is_category(wanted)) {
    return ranges_of(kCategoryRuns, [&](uint32_t run) { return is_in_category(run, wanted); });
  }
  const auto script = find_script(wanted);
  if (!script) return std::nullopt;
  return ranges_of(kScriptRuns, [&](uint32_t run) { return run_script(run) == *script; });
}

std::optional<std::vector<CodePointRange>> newer_category_ranges(std::string_view name) {
  const std::string wanted = loose(name);
  if (!is_category(wanted)) return std::nullopt;
  return ranges_of(kCategoryRuns,
                   [&](uint32_t run) { return run_is_newer(run) && is_in_category(run, wanted); });
}

std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> out;
  char32_t next = 0;
  for (const CodePointRange& range : ranges) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return out;
}

std::optional<uint32_t> splitting_script(char32_t c) {
  constexpr char32_t kProlongedSoundMark = 0x30FC;
  static const uint32_t common = *find_script("common");
  static const uint32_t han = *find_script("han");
  static const uint32_t hiragana = *find_script("hiragana");
  static const uint32_t katakana = *find_script("katakana");
  if (c == ' ' || c > kLastCodePoint) return std::nullopt;
  if (c == kProlongedSoundMark) return han;
  const auto after =
      std::upper_bound(kScriptRuns.begin(), kScriptRuns.end(), c,
                       [](char32_t at, uint32_t run) { return at < run_begin(run); });
  const uint32_t run = *(after - 1);
  if (!run_splits_by_script(run)) return std::nullopt;
  if (run_splits_as_common(run)) return common;
  const uint32_t script = run_script(run);
  return script == hiragana || script == katakana ? han : script;
}

}  // namespace quire
