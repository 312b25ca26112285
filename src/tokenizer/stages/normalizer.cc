#include "tokenizer/stages/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/check.h"
#include "tokenizer/model/byte_level.h"
#include "tokenizer/unicode/normal_form.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

// Rewrites a text character by character.
template <typename Map>
std::string map_chars(std::string_view text, Map&& map) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = decode_utf8(text);
    map(out, c.value);
    text.remove_prefix(c.size);
  }
  return out;
}

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  std::string normalize(std::string text) const override {
    for (const auto& part : parts_) text = part->normalize(std::move(text));
    return text;
  }
  bool strips_start(std::string_view text) const override {
    if (!may_strip_start()) return false;
    std::string rest(text);
    for (const auto& part : parts_) {
      if (part->strips_start(rest)) return true;
      rest = part->normalize(std::move(rest));
    }
    return false;
  }
  bool may_strip_start() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const auto& part) { return part->may_strip_start(); });
  }
  double max_growth() const override {
    double growth = 1;
    for (const auto& part : parts_) growth *= part->max_growth();
    return growth;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  std::string normalize(std::string text) const override {
    return to_normal_form(std::move(text), form_);
  }

 private:
  NormalForm form_;
};

std::string lowercase(std::string_view text) {
  return map_chars(text, [](std::string& out, char32_t c) { append_lowercase(out, c); });
}

class LowercaseNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string text) const override { return lowercase(text); }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string normalize(std::string text) const override {
    size_t begin = text.size();
    size_t end = 0;
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = decode_utf8(std::string_view(text).substr(i));
      if ((char_class(c.value) & kSpace) == 0) {
        begin = std::min(begin, i);
        end = i + c.size;
      }
      i += c.size;
    }
    if (!left_) begin = 0;
    if (!right_) end = text.size();
    return begin < end ? text.substr(begin, end - begin) : std::string();
  }
  bool strips_start(std::string_view text) const override {
    return left_ && !text.empty() && (char_class(decode_utf8(text).value) & kSpace) != 0;
  }
  bool may_strip_start() const override { return left_; }

 private:
  bool left_;
  bool right_;
};

std::string without(std::string_view text, uint16_t bits) {
  const CharClasses classes;
  return map_chars(text, [&](std::string& out, char32_t c) {
    if ((classes(c) & bits) == 0) append_utf8(out, c);
  });
}

class StripAccentsNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string text) const override { return without(text, kLegacyMark); }
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string normalize(std::string text) const override {
    return replace_matches(text, pattern_, content_);
  }
  // A match of the empty string adds the content and keeps the character behind it.
  double max_growth() const override {
    const auto size = static_cast<double>(content_.size());
    const size_t shortest =
        pattern_.regex ? pattern_.regex->min_match_chars() : pattern_.literal.size();
    if (shortest == 0) return pattern_.regex ? size + 1 : 1;
    return std::max(1.0, size / static_cast<double>(shortest));
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string normalize(std::string text) const override {
    return text.empty() ? text : prefix_ + text;
  }

 private:
  std::string prefix_;
};

// PrecompiledNormalizer works on grapheme clusters: it looks up a short cluster as a whole, and any
// other character by character. The shortest key wins.
class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(Charsmap map) : map_(std::move(map)) {}
  double max_growth() const override {
    return std::max(1.0, static_cast<double>(map_.max_replacement_bytes()));
  }

  std::string normalize(std::string text) const override {
    std::string out;
    out.reserve(text.size());
    const std::string_view in = text;
    for (size_t begin = 0; begin < in.size();) {
      const size_t end = grapheme_end(in, begin);
      append(out, in.substr(begin, end - begin));
      begin = end;
    }
    return out;
  }

 private:
  static size_t grapheme_end(std::string_view in, size_t begin) {
    CodePoint c = decode_utf8(in.substr(begin));
    size_t end = begin + c.size;
    utf8proc_int32_t state = 0;
    while (end < in.size()) {
      const CodePoint next = decode_utf8(in.substr(end));
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state)) {
        break;
      }
      c = next;
      end += next.size;
    }
    return end;
  }

  void append(std::string& out, std::string_view grapheme) const {
    if (grapheme.size() < 6) {
      if (const auto match = map_.shortest_prefix(grapheme)) {
        out += match->replacement;
        return;
      }
    }
    while (!grapheme.empty()) {
      const std::string_view one = grapheme.substr(0, decode_utf8(grapheme).size);
      const auto match = map_.shortest_prefix(one);
      out += match ? match->replacement : one;
      grapheme.remove_prefix(one.size());
    }
  }

  Charsmap map_;
};

bool is_cjk_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertNormalizerOptions options) : options_(options) {}

  std::string normalize(std::string text) const override {
    if (options_.clean_text) text = clean(text);
    if (options_.handle_chinese_chars) {
      text = map_chars(text, [](std::string& out, char32_t c) {
        const bool alone = is_cjk_ideograph(c);
        if (alone) out += ' ';
        append_utf8(out, c);
        if (alone) out += ' ';
      });
    }
    if (options_.strip_accents.value_or(options_.lowercase)) {
      text = without(to_normal_form(std::move(text), NormalForm::kNfd), kNonSpacing);
    }
    return options_.lowercase ? lowercase(text) : text;
  }

 private:
  static std::string clean(std::string_view text) {
    const CharClasses classes;
    return map_chars(text, [&](std::string& out, char32_t c) {
      const uint16_t bits = classes(c);
      if (c == 0 || c == kReplacementChar || (bits & kOther) != 0) return;
      append_utf8(out, (bits & kSpace) != 0 ? U' ' : c);
    });
  }

  BertNormalizerOptions options_;
};

// NmtNormalizer is the clean-up of the Moses/NMT tools: it removes control characters and turns
// unusual spaces into plain ones.
class NmtNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string text) const override {
    return map_chars(text, [](std::string& out, char32_t c) {
      const bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                           c == 0x7F || c == 0x8F || c == 0x9F;
      if (dropped) return;
      const bool is_space = c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                            c == 0x2581 || c == 0xFEFF || c == kReplacementChar;
      append_utf8(out, is_space ? U' ' : c);
    });
  }
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string text) const override { return byte_level_encode(text); }
  double max_growth() const override { return 2; }
};

// Returns the size up to which replacing may lengthen a text; further matches stay as they are.
// Texts of real files stay far below. Without a limit, each of a few rules of a hostile file could
// multiply the text.
size_t growth_limit(size_t size) {
  constexpr size_t kSlack = size_t{64} << 10;
  constexpr size_t kMost = size_t{32} << 20;
  return std::max(size + kSlack, std::min(16 * size + kSlack, kMost));
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  QUIRE_CHECK(!from.empty());
  const size_t limit = growth_limit(text.size());
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  for (size_t at = text.find(from); at != text.npos && out.size() < limit;
       at = text.find(from, begin)) {
    out += text.substr(begin, at - begin);
    out += to;
    begin = at + from.size();
  }
  out += text.substr(begin);
  return out;
}

std::string replace_matches(std::string_view text, const TextPattern& pattern,
                            std::string_view content) {
  if (!pattern.regex) {
    return pattern.literal.empty() ? std::string(text)
                                   : replace_all(text, pattern.literal, content);
  }
  RegexMatcher matcher(*pattern.regex);
  const size_t limit = growth_limit(text.size());
  std::string out;
  size_t begin = 0;
  for (size_t from = 0; from <= text.size() && out.size() < limit;) {
    const auto match = matcher.find(text, from);
    if (!match) break;
    out += text.substr(begin, match->begin - begin);
    out += content;
    begin = match->end;
    // After an empty match, the search continues behind the next character, which is kept.
    from = match->end > match->begin  ? match->end
           : match->end < text.size() ? match->end + decode_utf8(text.substr(match->end)).size
                                      : text.size() + 1;
  }
  out += text.substr(begin);
  return out;
}

std::unique_ptr<Normalizer> make_sequence_normalizer(
    std::vector<std::unique_ptr<Normalizer>> parts) {
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}
std::unique_ptr<Normalizer> make_unicode_normalizer(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}
std::unique_ptr<Normalizer> make_lowercase_normalizer() {
  return std::make_unique<LowercaseNormalizer>();
}
std::unique_ptr<Normalizer> make_strip_normalizer(bool left, bool right) {
  return std::make_unique<StripNormalizer>(left, right);
}
std::unique_ptr<Normalizer> make_strip_accents_normalizer() {
  return std::make_unique<StripAccentsNormalizer>();
}
std::unique_ptr<Normalizer> make_replace_normalizer(TextPattern pattern, std::string content) {
  return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(content));
}
std::unique_ptr<Normalizer> make_prepend_normalizer(std::string prefix) {
  return std::make_unique<PrependNormalizer>(std::move(prefix));
}
std::unique_ptr<Normalizer> make_precompiled_normalizer(Charsmap charsmap) {
  return std::make_unique<PrecompiledNormalizer>(std::move(charsmap));
}
std::unique_ptr<Normalizer> make_bert_normalizer(BertNormalizerOptions options) {
  return std::make_unique<BertNormalizer>(options);
}
std::unique_ptr<Normalizer> make_nmt_normalizer() { return std::make_unique<NmtNormalizer>(); }
std::unique_ptr<Normalizer> make_byte_level_normalizer() {
  return std::make_unique<ByteLevelNormalizer>();
}
}  // namespace quire
