// A PreTokenizer cuts a text into words before the model sees it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/stages/normalizer.h"
#include "tokenizer/stages/regex.h"

namespace quire {

// A SplitList holds the words of one text, in order, none empty. Views point into the text or into
// `owned`.
struct SplitList {
  std::vector<std::string_view> words;
  bool at_text_start = false;     // whether the first word begins where the whole input does
  std::deque<std::string> owned;  // rewritten words; a deque so that views stay valid
};

// A pre-tokenizer is immutable and thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(SplitList& list) const = 0;
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrependScheme { kAlways, kFirst, kNever };

struct ByteLevelOptions {
  bool add_prefix_space = true;
  bool use_regex = true;
  // If true, each byte is written as its character of the byte alphabet; if false, the words are
  // raw bytes, for a model that reads them.
  bool map_bytes = true;
};

std::unique_ptr<PreTokenizer> make_sequence_pre_tokenizer(
    std::vector<std::unique_ptr<PreTokenizer>> parts);
std::unique_ptr<PreTokenizer> make_byte_level_pre_tokenizer(ByteLevelOptions options);
std::unique_ptr<PreTokenizer> make_metaspace_pre_tokenizer(std::string replacement,
                                                           PrependScheme scheme, bool split);
// Splits at a pattern; published patterns run on a hand-written scanner.
std::unique_ptr<PreTokenizer> make_split_pre_tokenizer(TextPattern pattern, SplitBehavior behavior,
                                                       bool invert);
std::unique_ptr<PreTokenizer> make_whitespace_pre_tokenizer();        // \w+|[^\w\s]+
std::unique_ptr<PreTokenizer> make_whitespace_split_pre_tokenizer();  // at white space
std::unique_ptr<PreTokenizer> make_punctuation_pre_tokenizer(SplitBehavior behavior);
std::unique_ptr<PreTokenizer> make_digits_pre_tokenizer(bool individual);
std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer();
std::unique_ptr<PreTokenizer> make_char_delimiter_pre_tokenizer(char32_t delimiter);
std::unique_ptr<PreTokenizer> make_unicode_scripts_pre_tokenizer();  // where the script changes
std::unique_ptr<PreTokenizer> make_fixed_length_pre_tokenizer(int64_t num_chars);

}  // namespace quire
