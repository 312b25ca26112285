#include "tokenizer/stages/pre_tokenizer.h"

#include <algorithm>
#include <functional>

#include "tokenizer/model/byte_level.h"
#include "tokenizer/stages/word_scanner.h"
#include "tokenizer/unicode/unicode.h"
#include "tokenizer/unicode/unicode_property.h"

namespace quire {
namespace {

// A Part is a stretch of a word: a match of the pattern, or the text between two matches.
struct Part {
  std::string_view text;
  bool is_match = false;
};

bool is_punctuation(char32_t, uint16_t bits) { return (bits & kPunctuation) != 0; }

// Joins parts as `behavior` says and appends the words. Empty words are dropped.
void append_words(const std::vector<Part>& parts, SplitBehavior behavior,
                  std::vector<std::string_view>& words) {
  const auto joined = [](std::string_view a, std::string_view b) {
    return std::string_view(a.data(), a.size() + b.size());
  };
  const size_t first = words.size();
  bool previous_is_match = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      for (const Part& part : parts) {
        if (behavior == SplitBehavior::kIsolated || !part.is_match) words.push_back(part.text);
      }
      break;
    case SplitBehavior::kContiguous:
      for (const Part& part : parts) {
        if (words.size() > first && part.is_match == previous_is_match) {
          words.back() = joined(words.back(), part.text);
        } else {
          words.push_back(part.text);
        }
        previous_is_match = part.is_match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Part& part : parts) {
        if (words.size() > first && part.is_match && !previous_is_match) {
          words.back() = joined(words.back(), part.text);
        } else {
          words.push_back(part.text);
        }
        previous_is_match = part.is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (words.size() > first && part->is_match && !previous_is_match) {
          words.back() = joined(part->text, words.back());
        } else {
          words.push_back(part->text);
        }
        previous_is_match = part->is_match;
      }
      std::reverse(words.begin() + static_cast<ptrdiff_t>(first), words.end());
      break;
  }
  words.erase(std::remove_if(words.begin() + static_cast<ptrdiff_t>(first), words.end(),
                             [](std::string_view word) { return word.empty(); }),
              words.end());
}

// Calls find_parts(word, parts) for every word and joins the parts.
template <typename FindParts>
void split_words(SplitList& list, SplitBehavior behavior, FindParts&& find_parts) {
  std::vector<std::string_view> words;
  words.swap(list.words);
  std::vector<Part> parts;
  for (const std::string_view word : words) {
    parts.clear();
    find_parts(word, parts);
    const size_t before = list.words.size();
    append_words(parts, behavior, list.words);
    // A first word whose beginning was removed does not stand at the start of the text.
    if (word.data() == words.front().data() && list.at_text_start && before == 0) {
      list.at_text_start = !list.words.empty() && list.words.front().data() == word.data();
    }
  }
}

// Finds parts whose matches are the single characters that satisfy a predicate.
template <typename IsMatch>
void char_parts(std::string_view word, std::vector<Part>& parts, IsMatch&& is_match) {
  size_t begin = 0;
  for (size_t i = 0; i < word.size();) {
    const CodePoint c = decode_utf8(word.substr(i));
    if (is_match(c.value)) {
      if (i > begin) parts.push_back({word.substr(begin, i - begin), false});
      parts.push_back({word.substr(i, c.size), true});
      begin = i + c.size;
    }
    i += c.size;
  }
  if (begin < word.size()) parts.push_back({word.substr(begin), false});
}

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void split(SplitList& list) const override {
    for (const auto& part : parts_) part->split(list);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

void scan_words(const WordScanner& scanner, SplitList& list) {
  std::vector<std::string_view> words;
  words.swap(list.words);
  for (const std::string_view word : words) {
    list.words.reserve(list.words.size() + word.size() / 4);
    scanner.scan(word, list.words);
  }
}

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(ByteLevelOptions options) : options_(options) {}

  void split(SplitList& list) const override {
    if (options_.add_prefix_space) {
      for (std::string_view& word : list.words) {
        if (!word.starts_with(' ')) word = list.owned.emplace_back(1, ' ').append(word);
      }
    }
    if (options_.use_regex) scan_words(WordScanner::gpt2(), list);
    if (options_.map_bytes) {
      for (std::string_view& word : list.words) {
        word = list.owned.emplace_back(byte_level_encode(word));
      }
    }
  }

 private:
  ByteLevelOptions options_;
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void split(SplitList& list) const override {
    for (size_t i = 0; i < list.words.size(); ++i) {
      std::string word = replace_all(list.words[i], " ", replacement_);
      const bool may_prepend = scheme_ == PrependScheme::kAlways ||
                               (scheme_ == PrependScheme::kFirst && i == 0 && list.at_text_start);
      if (may_prepend && !word.starts_with(replacement_)) word.insert(0, replacement_);
      list.words[i] = list.owned.emplace_back(std::move(word));
    }
    if (!split_) return;
    std::vector<std::string_view> words;
    words.swap(list.words);
    for (std::string_view word : words) {
      // Each replacement character begins a word.
      while (!word.empty()) {
        const size_t skip = word.starts_with(replacement_) ? replacement_.size() : 0;
        const size_t end = std::min(word.find(replacement_, skip), word.size());
        list.words.push_back(word.substr(0, end));
        word.remove_prefix(end);
      }
    }
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

// Finds parts by the pattern \s+$ in linear time. The general matcher would start again at every
// space of a long run.
void trailing_space_parts(std::string_view word, std::vector<Part>& parts) {
  size_t begin = 0;
  for (size_t i = 0; i < word.size();) {
    size_t end = i;
    size_t last_newline = i;
    while (end < word.size()) {
      const CodePoint c = decode_utf8(word.substr(end));
      if ((char_class(c.value) & kSpace) == 0) break;
      if (c.value == '\n') last_newline = end;
      end += c.size;
    }
    const size_t stop = end == word.size() ? end : last_newline;
    if (stop > i) {
      parts.push_back({word.substr(begin, i - begin), false});
      parts.push_back({word.substr(i, stop - i), true});
      begin = stop;
    }
    i = end < word.size() ? end + decode_utf8(word.substr(end)).size : end;
  }
  parts.push_back({word.substr(begin), false});
}

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {
    if (!pattern_.regex) return;
    is_trailing_space_ = pattern_.regex->pattern() == R"(\s+$)";
    // In these modes the words cover the text: isolated matches, or everything between matches.
    const bool keeps_matches =
        (behavior == SplitBehavior::kIsolated) || (behavior == SplitBehavior::kRemoved && invert);
    if (keeps_matches) scanner_ = WordScanner::for_pattern(pattern_.regex->pattern());
  }

  void split(SplitList& list) const override {
    if (scanner_) return scan_words(*scanner_, list);
    std::unique_ptr<RegexMatcher> matcher;
    if (pattern_.regex) matcher = std::make_unique<RegexMatcher>(*pattern_.regex);
    split_words(list, behavior_, [&](std::string_view word, std::vector<Part>& parts) {
      if (is_trailing_space_) {
        trailing_space_parts(word, parts);
      } else if (matcher) {
        regex_parts(*matcher, word, parts);
      } else {
        literal_parts(word, parts);
      }
      if (invert_) {
        for (Part& part : parts) part.is_match = !part.is_match;
      }
    });
  }

 private:
  // An empty match separates its neighbours, except directly behind another match.
  static void regex_parts(RegexMatcher& matcher, std::string_view word, std::vector<Part>& parts) {
    size_t begin = 0;
    std::optional<size_t> last_end;
    for (size_t from = 0; from <= word.size();) {
      const auto match = matcher.find(word, from);
      if (!match) break;
      const bool is_empty = match->begin == match->end;
      from = is_empty ? next_char(word, match->end) : match->end;
      if (is_empty && last_end == match->end) continue;
      if (match->begin > begin) parts.push_back({word.substr(begin, match->begin - begin), false});
      parts.push_back({word.substr(match->begin, match->end - match->begin), true});
      begin = match->end;
      last_end = begin;
    }
    if (begin < word.size()) parts.push_back({word.substr(begin), false});
  }

  static size_t next_char(std::string_view word, size_t at) {
    return at < word.size() ? at + decode_utf8(word.substr(at)).size : word.size() + 1;
  }

  void literal_parts(std::string_view word, std::vector<Part>& parts) const {
    const std::string_view literal = pattern_.literal;
    size_t begin = 0;
    while (!literal.empty()) {
      const size_t at = word.find(literal, begin);
      if (at == word.npos) break;
      if (at > begin) parts.push_back({word.substr(begin, at - begin), false});
      parts.push_back({word.substr(at, literal.size()), true});
      begin = at + literal.size();
    }
    if (begin < word.size()) parts.push_back({word.substr(begin), false});
  }

  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
  bool is_trailing_space_ = false;
  std::optional<WordScanner> scanner_;
};

// CharPreTokenizer splits at the characters of one kind.
class CharPreTokenizer final : public PreTokenizer {
 public:
  using IsMatch = std::function<bool(char32_t, uint16_t)>;
  CharPreTokenizer(IsMatch is_match, SplitBehavior behavior)
      : is_match_(std::move(is_match)), behavior_(behavior) {}
  void split(SplitList& list) const override {
    const CharClasses classes;
    split_words(list, behavior_, [&](std::string_view word, std::vector<Part>& parts) {
      char_parts(word, parts, [&](char32_t c) { return is_match_(c, classes(c)); });
    });
  }

 private:
  IsMatch is_match_;
  SplitBehavior behavior_;
};

// WhitespacePreTokenizer splits by \w+|[^\w\s]+: runs of word characters and runs of others.
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  void split(SplitList& list) const override {
    const CharClasses classes;
    const auto kind = [&](char32_t c) {
      const uint16_t bits = classes(c);
      return (bits & kWord) != 0 ? 1 : (bits & kSpace) != 0 ? 0 : 2;
    };
    std::vector<std::string_view> words;
    words.swap(list.words);
    for (const std::string_view word : words) {
      size_t begin = 0;
      int current = 0;
      for (size_t i = 0; i < word.size();) {
        const CodePoint c = decode_utf8(word.substr(i));
        const int next = kind(c.value);
        if (next != current) {
          if (current != 0) list.words.push_back(word.substr(begin, i - begin));
          begin = i;
          current = next;
        }
        i += c.size;
      }
      if (current != 0) list.words.push_back(word.substr(begin));
    }
    if (!words.empty() && !list.words.empty() && list.words[0].data() != words[0].data()) {
      list.at_text_start = false;
    }
  }
};

// UnicodeScriptsPreTokenizer cuts where the script changes. Characters without a script belong to
// the word before them. The reference drops those that precede the first word.
class UnicodeScriptsPreTokenizer final : public PreTokenizer {
 public:
  void split(SplitList& list) const override {
    std::vector<std::string_view> words;
    words.swap(list.words);
    for (const std::string_view word : words) {
      std::optional<uint32_t> script_before;
      size_t begin = word.size();
      for (size_t i = 0; i < word.size();) {
        const CodePoint c = decode_utf8(word.substr(i));
        const std::optional<uint32_t> script = splitting_script(c.value);
        if (script && script != script_before) {
          if (script_before) list.words.push_back(word.substr(begin, i - begin));
          begin = i;
          script_before = script;
        }
        i += c.size;
      }
      if (script_before) list.words.push_back(word.substr(begin));
    }
  }
};

class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(int64_t num_chars) : num_chars_(num_chars) {}
  void split(SplitList& list) const override {
    std::vector<std::string_view> words;
    words.swap(list.words);
    for (std::string_view word : words) {
      while (!word.empty()) {
        size_t end = 0;
        for (int64_t i = 0; i < num_chars_ && end < word.size(); ++i) {
          end += decode_utf8(word.substr(end)).size;
        }
        list.words.push_back(word.substr(0, end));
        word.remove_prefix(end);
      }
    }
  }

 private:
  int64_t num_chars_;
};

std::unique_ptr<PreTokenizer> split_at_chars(CharPreTokenizer::IsMatch is_match,
                                             SplitBehavior behavior) {
  return std::make_unique<CharPreTokenizer>(std::move(is_match), behavior);
}

}  // namespace

std::unique_ptr<PreTokenizer> make_sequence_pre_tokenizer(
    std::vector<std::unique_ptr<PreTokenizer>> parts) {
  return std::make_unique<SequencePreTokenizer>(std::move(parts));
}
std::unique_ptr<PreTokenizer> make_byte_level_pre_tokenizer(ByteLevelOptions options) {
  return std::make_unique<ByteLevelPreTokenizer>(options);
}
std::unique_ptr<PreTokenizer> make_metaspace_pre_tokenizer(std::string replacement,
                                                           PrependScheme scheme, bool split) {
  return std::make_unique<MetaspacePreTokenizer>(std::move(replacement), scheme, split);
}
std::unique_ptr<PreTokenizer> make_split_pre_tokenizer(TextPattern pattern, SplitBehavior behavior,
                                                       bool invert) {
  return std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert);
}
std::unique_ptr<PreTokenizer> make_whitespace_pre_tokenizer() {
  return std::make_unique<WhitespacePreTokenizer>();
}
std::unique_ptr<PreTokenizer> make_whitespace_split_pre_tokenizer() {
  return split_at_chars([](char32_t, uint16_t bits) { return (bits & kSpace) != 0; },
                        SplitBehavior::kRemoved);
}
std::unique_ptr<PreTokenizer> make_punctuation_pre_tokenizer(SplitBehavior behavior) {
  return split_at_chars(is_punctuation, behavior);
}
std::unique_ptr<PreTokenizer> make_digits_pre_tokenizer(bool individual) {
  return split_at_chars([](char32_t, uint16_t bits) { return (bits & kNumeric) != 0; },
                        individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}
std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer() {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  parts.push_back(make_whitespace_split_pre_tokenizer());
  parts.push_back(make_punctuation_pre_tokenizer(SplitBehavior::kIsolated));
  return make_sequence_pre_tokenizer(std::move(parts));
}
std::unique_ptr<PreTokenizer> make_char_delimiter_pre_tokenizer(char32_t delimiter) {
  return split_at_chars([delimiter](char32_t c, uint16_t) { return c == delimiter; },
                        SplitBehavior::kRemoved);
}
std::unique_ptr<PreTokenizer> make_unicode_scripts_pre_tokenizer() {
  return std::make_unique<UnicodeScriptsPreTokenizer>();
}
std::unique_ptr<PreTokenizer> make_fixed_length_pre_tokenizer(int64_t num_chars) {
  return std::make_unique<FixedLengthPreTokenizer>(num_chars);
}

}  // namespace quire
