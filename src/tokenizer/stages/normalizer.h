// A normalizer turns text into text, before it is split and looked up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/model/byte_trie.h"
#include "tokenizer/stages/charsmap.h"
#include "tokenizer/stages/regex.h"
#include "tokenizer/unicode/normal_form.h"

namespace quire {

// A normalizer is immutable and thread-safe. Valid UTF-8 goes in, valid UTF-8 comes out.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string normalize(std::string text) const = 0;
  // Returns whether normalizing strips the beginning of `text`. What remains then does not count as
  // the start of a text, which the "first" scheme of Metaspace looks at.
  virtual bool strips_start(std::string_view) const { return false; }
  // Returns whether strips_start() can return true for any text.
  virtual bool may_strip_start() const { return false; }
  // Returns by which factor a text may grow at most, according to the file. A fixed prefix and
  // Unicode's maps, which do not grow with repetition, count as 1.
  virtual double max_growth() const { return 1; }
};

// A file whose normalizer may lengthen a text by more than this is refused: 40 steps that each
// double the text would keep a thread busy for ever. The growth of published files stays below 100.
inline constexpr double kMaxNormalizerGrowth = 1024;

// A TextPattern is the literal or regular expression that Replace and Split look for.
struct TextPattern {
  std::string literal{};  // used when there is no regex
  std::optional<Regex> regex{};
};

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents{};  // nullopt: the same as `lowercase`
  bool lowercase = true;
};

// This is SentencePiece's own normalizer (tokenizer.model, GGUF "t5" and "llama" vocabularies).
struct SentencePieceNormalizerOptions {
  std::optional<Charsmap> charsmap;
  ByteTrie protected_pieces;  // user-defined symbols pass through untouched
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;  // ' ' becomes U+2581
  bool whitespace_as_suffix = false;
};

std::unique_ptr<Normalizer> make_sequence_normalizer(
    std::vector<std::unique_ptr<Normalizer>> parts);
std::unique_ptr<Normalizer> make_unicode_normalizer(NormalForm form);
std::unique_ptr<Normalizer> make_lowercase_normalizer();
std::unique_ptr<Normalizer> make_strip_normalizer(bool left, bool right);
std::unique_ptr<Normalizer> make_strip_accents_normalizer();
std::unique_ptr<Normalizer> make_replace_normalizer(TextPattern pattern, std::string content);
std::unique_ptr<Normalizer> make_prepend_normalizer(std::string prefix);
std::unique_ptr<Normalizer> make_precompiled_normalizer(Charsmap charsmap);
std::unique_ptr<Normalizer> make_bert_normalizer(BertNormalizerOptions options);
std::unique_ptr<Normalizer> make_nmt_normalizer();
std::unique_ptr<Normalizer> make_byte_level_normalizer();
std::unique_ptr<Normalizer> make_sentencepiece_normalizer(SentencePieceNormalizerOptions options);

// Replaces every occurrence of `from` (not empty), left to right.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
std::string replace_matches(std::string_view text, const TextPattern& pattern,
                            std::string_view content);

}  // namespace quire
