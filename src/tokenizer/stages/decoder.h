// A decoder turns pieces back into text, one token at a time.
//
// It is a list of steps, each of which rewrites a stream of tokens; some steps output a single
// ("fused") token that arrives in chunks. Whole-text decoding and streaming run the same steps, so
// they cannot disagree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/stages/normalizer.h"

namespace quire {

struct DecoderStep {
  enum class Kind {
    kByteLevel,
    kMetaspace,  // text: the replacement; flag: whether the first token loses it
    kWordPiece,  // text: the prefix inside words; flag: whether to clean up
    kByteFallback,
    kFuse,
    kStrip,          // text: one character; start, stop: how many are removed at most
    kReplace,        // replaces pattern by text
    kBpe,            // text: the end-of-word suffix
    kCtc,            // text: the pad token; delimiter: between words; flag: whether to clean up
    kJoinWithSpace,  // the step of a tokenizer without a decoder
    kCleanUp,        // clean_up_tokenization_spaces on the whole text
  };
  Kind kind = Kind::kFuse;
  std::string text{};
  std::string delimiter{};
  TextPattern pattern{};
  int64_t start = 0;
  int64_t stop = 0;
  bool flag = false;
};

// A decoder is immutable and thread-safe; streams point to it.
class TextDecoder {
 public:
  // Without `steps` tokens are joined by spaces.
  explicit TextDecoder(std::vector<DecoderStep> steps);

  // Returns the bytes that `piece` adds in the middle of a text.
  std::string mid_text_bytes(std::string_view piece) const;

  // Appends a step after all others.
  void add_step(DecoderStep step) { steps_.push_back(std::move(step)); }

 private:
  friend class DecodeStream;
  std::vector<DecoderStep> steps_;
};

// A DecodeStream is one run of a decoder. One thread uses it, and the decoder must outlive it.
class DecodeStream {
 public:
  enum class Mode {
    kWhole,      // a run of byte pieces that is not UTF-8 becomes one U+FFFD per byte
    kStreaming,  // complete characters leave such a run as they arrive
  };
  DecodeStream(const TextDecoder& decoder, Mode mode);
  ~DecodeStream();
  DecodeStream(DecodeStream&&) noexcept;
  DecodeStream& operator=(DecodeStream&&) noexcept;

  // Appends to `out` the text that became certain with this token. It is valid UTF-8 and never ends
  // inside a character.
  void push(std::string_view piece, std::string& out);
  // Appends the text that was held back. The stream must not be used afterwards.
  void finish(std::string& out);

  class Stage;

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
};

// Does the same clean-up as transformers: " ." becomes "." and so on.
std::string clean_up_spaces(std::string_view text);

}  // namespace quire
