// Finds stop strings in streamed text, and holds back text that may be the start of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Reads text byte by byte through one Knuth-Morris-Pratt automaton per stop string, so that the
// result does not depend on how the text is cut into pieces, and the cost per byte is constant. The
// stop string that ends first wins; of those that end at the same byte, the first in the list. It
// holds back exactly the longest end of the text that begins some stop string, which is at most the
// longest stop string less one byte. Stop strings are whole UTF-8 and not empty; the text is whole
// UTF-8 too.
class StopMatcher {
 public:
  StopMatcher(const std::vector<std::string>& stops, bool include_stop_in_output);

  struct Output {
    std::string text;  // can be sent now
    // The stop string that ended the text; feed() must not be called after that.
    std::optional<size_t> stop;
  };

  // `may_stop` is false as long as min_tokens forbids a stop: a stop string that ends in this text
  // is then ignored, but one that begins here may end later.
  Output feed(std::string_view text, bool may_stop);
  // Ends the text without a stop string and returns what was held back.
  std::string flush();

 private:
  struct Automaton {
    std::string pattern;
    std::vector<uint32_t> failure;  // [pattern.size() + 1] longest proper border of each prefix
    uint32_t state = 0;             // length of the longest end of the text that begins the pattern

    void step(char c);
  };

  std::vector<Automaton> automata_;
  bool include_stop_;
  std::string held_;
};

}  // namespace quire
