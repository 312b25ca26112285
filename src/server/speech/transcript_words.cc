#include "server/speech/transcript_words.h"

#include <algorithm>
#include <utility>

#include "base/text_fields.h"

namespace quire {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
// Marks that are joined to the next word, and marks that are joined to the word before.
constexpr std::string_view kPrepended = "\"'“¡¿([{-";
constexpr std::string_view kAppended = "\"'.。,，!！?？:：”)]}、";

bool is_among(std::string_view text, std::string_view marks) {
  return marks.find(text) != marks.npos;
}

// Joins tokens until they form complete characters.
std::vector<TranscriptWord> split_characters(std::span<const TimedToken> tokens,
                                             const TextCodec& codec) {
  std::vector<TokenId> ids;
  for (const TimedToken& token : tokens) ids.push_back(token.id);
  const std::string whole = codec.decode(ids, false);
  std::vector<TranscriptWord> parts;
  size_t done = 0;  // bytes of `whole`
  for (size_t begin = 0, i = 0; i < ids.size(); ++i) {
    const std::string text =
        codec.decode(std::vector<TokenId>(ids.begin() + static_cast<int64_t>(begin),
                                          ids.begin() + static_cast<int64_t>(i) + 1),
                     false);
    // A replacement character stands for bytes that are no character, or for the beginning of one.
    const size_t broken = text.find(kReplacement);
    if (broken != text.npos && done + broken < whole.size() &&
        std::string_view(whole).substr(done + broken, kReplacement.size()) != kReplacement)
      continue;
    parts.push_back({.text = text, .start = tokens[begin].start, .end = tokens[i].end});
    done += text.size();
    begin = i + 1;
  }
  return parts;
}

void add_part(const TranscriptWord& more, TranscriptWord& word) {
  word.text += more.text;
  word.end = more.end;
}

std::vector<TranscriptWord> join_until_spaces(const std::vector<TranscriptWord>& parts) {
  std::vector<TranscriptWord> words;
  for (const TranscriptWord& part : parts) {
    const bool begins =
        words.empty() || part.text.starts_with(' ') || is_among(trim(part.text), kPunctuation);
    if (begins) {
      words.push_back(part);
    } else {
      add_part(part, words.back());
    }
  }
  return words;
}

void merge_punctuation(std::vector<TranscriptWord>& words) {
  for (size_t next = words.size(), mark = next; mark-- > 0;) {
    const bool is_prepended = next < words.size() && words[mark].text.starts_with(' ') &&
                              is_among(trim(words[mark].text), kPrepended);
    if (!is_prepended) {
      next = mark;
      continue;
    }
    words[next].text.insert(0, words[mark].text);
    words[next].start = words[mark].start;
    words[mark].text.clear();
  }
  std::erase_if(words, [](const TranscriptWord& word) { return word.text.empty(); });
  std::vector<TranscriptWord> merged;
  for (TranscriptWord& word : words) {
    const bool is_appended =
        !merged.empty() && !merged.back().text.ends_with(' ') && is_among(word.text, kAppended);
    if (is_appended) {
      add_part(word, merged.back());
    } else {
      merged.push_back(std::move(word));
    }
  }
  words = std::move(merged);
}

}  // namespace

bool has_spaces(std::string_view language) {
  constexpr std::string_view kWithout[] = {"zh", "ja", "th", "lo", "my", "yue"};
  return std::ranges::find(kWithout, language) == std::end(kWithout);
}

std::vector<TranscriptWord> make_words(std::span<const TimedToken> tokens, const TextCodec& codec,
                                       bool has_spaces) {
  std::vector<TranscriptWord> words = split_characters(tokens, codec);
  if (has_spaces) words = join_until_spaces(words);
  merge_punctuation(words);
  return words;
}

}  // namespace quire
