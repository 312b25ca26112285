// SuffixAutomaton stores all substrings of a growing text, and finds what followed earlier
// occurrences of the text's end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

// The suffix automaton of Blumer et al. (1985), built token by token. It has at most two states and
// three edges per token, takes constant time per token on average, and about 150 bytes per token.
// One thread at a time may use it.
class SuffixAutomaton {
 public:
  SuffixAutomaton();

  void append(TokenId token_id);
  int32_t num_tokens() const { return static_cast<int32_t>(text_.size()); }
  std::span<const TokenId> text() const { return text_; }
  int64_t memory_bytes() const;

  struct Match {
    int32_t length = 0;  // of the longest end of the text that occurred before; 0: none
    int32_t end = 0;     // position behind an earlier occurrence, the latest known one
  };
  Match longest_match() const;

  // The longest end of another text that occurs anywhere in this one. It follows the other text
  // token by token, while this text must not grow.
  struct Cursor {
    int32_t state = 0;
    int32_t length = 0;
  };
  void advance(Cursor& cursor, TokenId token_id) const;
  // Returns the position behind one of the occurrences. The cursor's length must be above 0.
  int32_t end_of(Cursor cursor) const;

 private:
  struct State {
    int32_t length = 0;  // of the longest substring that leads here
    int32_t link = -1;   // the state of its longest end that leads elsewhere
    int32_t first_edge = -1;
    int32_t last_end = 0;  // position behind the latest known occurrence
    int32_t before = 0;    // the same for the occurrence before that; 0: none
  };
  struct Edge {
    int32_t from = 0;
    TokenId token_id = 0;
    int32_t to = 0;
    int32_t next = -1;  // of the same state, index into edges_
  };

  int32_t add_state(const State& state);
  int32_t find_edge(int32_t from, TokenId token_id) const;  // -1: none
  void add_edge(int32_t from, TokenId token_id, int32_t to);
  int32_t split(int32_t from, int32_t edge);
  void rehash(size_t num_slots);
  size_t slot_of(int32_t from, TokenId token_id) const;

  std::vector<TokenId> text_;
  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<int32_t> slots_;  // open addressing: index into edges_ or -1; size is a power of two
  int32_t last_ = 0;            // the state of the whole text
};

}  // namespace quire
