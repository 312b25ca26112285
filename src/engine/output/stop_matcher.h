// Finds stop strings in streamed text, and holds back text that may turn out to be the start of
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Reads text byte by byte through one Knuth-Morris-Pratt automaton per stop string, so the outcome
// does not depend on how the text is cut into pieces, and the cost per byte is constant. The stop
// string that ends first wins; of those that end together, the first in the list. Held back is
// exactly the longest end of the text that begins some stop string: at most the longest stop string
// less one byte. Stop strings are whole UTF-8 and not empty; so is the text.
class StopMatcher {
 public:
  StopMatcher(const std::vector<std::string>& stops, bool include_stop_in_output);

  struct Output {
    std::string text;            // may be sent now
    std::optional<size_t> stop;  // which stop string ended the text; nothing may be fed after it
  };

  // `may_stop` is false while min_tokens holds: a stop string that ends now is then passed over,
  // though one that ends later may begin here.
  Output feed(std::string_view text, bool may_stop);
  // What is still held back: the text has ended without a stop string.
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
