// These are the generated tables of Unicode data (tools/make_unicode_tables.py). They are private
// to the tokenizer folder; unicode.h and unicode_property.h look things up in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire::unicode_internal {

// The names of the general categories, in the order of their numbers in the table.
inline constexpr std::array<std::string_view, 30> kCategoryNames{
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"};

// In the tables of runs, a run of code points with one value ends where the next run begins. The
// lowest 11 bits of an entry are the value, the others the first code point.
constexpr char32_t run_begin(uint32_t run) { return run >> 11; }

// These functions return the parts of a run's value in kCategoryRuns. Hugging Face's tokenizers
// take most properties of a character from Unicode 16, but some from other versions; those have
// bits of their own.
constexpr uint32_t run_category(uint32_t run) { return run & 31; }
enum class LegacyClass { kNone, kPunctuation, kNonSpacing, kControl };  // Unicode 8
constexpr LegacyClass run_legacy_class(uint32_t run) {
  return static_cast<LegacyClass>((run >> 5) & 3);
}
constexpr bool run_is_newer(uint32_t run) { return ((run >> 7) & 1) != 0; }  // than Unicode 14
constexpr bool run_is_legacy_mark(uint32_t run) { return ((run >> 8) & 1) != 0; }  // Unicode 12
constexpr bool run_is_opaque(uint32_t run) { return ((run >> 9) & 1) != 0; }       // see kOpaque
constexpr bool run_is_numeric(uint32_t run) { return ((run >> 10) & 1) != 0; }     // Unicode 17

inline constexpr size_t kNumCategoryRuns = 4165;
extern const std::array<uint32_t, kNumCategoryRuns> kCategoryRuns;

// These functions return the parts of a run's value in kScriptRuns: an index of kScriptNames,
// whether the UnicodeScripts pre-tokenizer's table, which is older, has the characters, and whether
// that table has them as Common.
constexpr uint32_t run_script(uint32_t run) { return run & 255; }
constexpr bool run_splits_by_script(uint32_t run) { return ((run >> 8) & 1) != 0; }
constexpr bool run_splits_as_common(uint32_t run) { return ((run >> 9) & 1) != 0; }

inline constexpr size_t kNumScriptRuns = 1860;
extern const std::array<uint32_t, kNumScriptRuns> kScriptRuns;

struct ScriptName {
  std::string_view code;  // ISO 15924: "Hani"
  std::string_view name;  // "Han"
};
inline constexpr size_t kNumScripts = 171;
extern const std::array<ScriptName, kNumScripts> kScriptNames;

// The lower case of every `stride`th character of [first, last] is the character plus `delta`.
struct LowercaseRange {
  char32_t first;
  char32_t last;
  uint32_t stride;
  int32_t delta;
};
inline constexpr size_t kNumLowercaseRanges = 185;
extern const std::array<LowercaseRange, kNumLowercaseRanges> kLowercaseRanges;

}  // namespace quire::unicode_internal
