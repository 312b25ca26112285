// An ExprStore holds regular expressions over bytes, each stored once (hash-consed), and computes
// their derivatives (Brzozowski, 1964).
//
//   ExprStore store;
//   const ExprId ab = store.literal("ab");
//   store.nullable(store.derivative(store.derivative(ab, 'a'), 'b'));  // true
//
// Constructors simplify, so that equal languages mostly get equal ids and an expression has few
// derivatives. Counted repetition stays a count. Intersection and complement are expressions too.
//
// Everything that a client can make grow is bounded: beyond a limit the store fails (status()), and
// until begin_work() its constructors return kNone. What they return is then wrong, so callers must
// not keep what they computed from it. An ExprStore is not thread-safe.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/rules/hash.h"

namespace quire::grammar {

using ExprId = uint32_t;
using ByteSet = std::bitset<256>;

inline constexpr uint32_t kUnbounded = ~uint32_t{0};
// No token that a grammar allows is this long (vocabulary.h leaves longer ones out), so no token
// can distinguish this count from a higher one.
inline constexpr uint32_t kCountHorizon = 256;

enum class ExprKind : uint8_t {
  kNone,      // no string
  kEmpty,     // the empty string
  kBytes,     // one byte of a set
  kConcat,    // a then b; a is not a concatenation itself
  kOr,        // any of a list
  kAnd,       // all of a list
  kNot,       // every string of bytes that a does not match
  kRepeat,    // a, min to max times
  kMultiple,  // digits whose value is a multiple (number_expr.h)
  kCompare,   // digits whose value compares to a constant (number_expr.h)
};

struct ExprLimits {
  size_t max_nodes = 2'000'000;
  size_t max_depth = 400;  // of nesting; bounds recursion
  // Derivatives examined to decide whether one expression is empty.
  size_t max_liveness_steps = 200'000;
};

// The automata of kMultiple and kCompare read the canonical text of a non-negative decimal number.
struct NumberState {
  uint64_t a = 0;  // kMultiple: the divisor; kCompare: the id of the constant's text
  uint64_t b = 0;  // kMultiple: the remainder so far; kCompare: how the digits so far compare
  uint32_t position = 0;
  uint8_t phase = 0;
  uint8_t op = 0;
  friend auto operator<=>(const NumberState&, const NumberState&) = default;
};

class ExprStore {
 public:
  static constexpr ExprId kNone = 0;
  static constexpr ExprId kEmpty = 1;
  static constexpr ExprId kAnything = 2;  // every string of bytes

  explicit ExprStore(const ExprLimits& limits = {});

  ExprId bytes(const ByteSet& set);
  ExprId byte(uint8_t value);
  ExprId byte_range(uint8_t lo, uint8_t hi);
  ExprId literal(std::string_view text);
  ExprId concat(ExprId head, ExprId tail);
  ExprId concat(std::span<const ExprId> parts);
  ExprId any_of(std::vector<ExprId> parts);
  ExprId all_of(std::vector<ExprId> parts);
  ExprId complement(ExprId part);
  ExprId repeat(ExprId part, uint32_t min, uint32_t max);
  // Replaces the maximum of counted repetitions with a maximum of `from` or more by `max`, outside
  // of complements and before the first byte that must come. If `from` < kCountHorizon, both
  // numbers are divided by eight for repetitions of parts of two bytes or more. So if max <= from,
  // the result matches a subset of what `expr` matches, and if `max` is kUnbounded, a superset.
  ExprId with_counts(ExprId expr, uint32_t from, uint32_t max);
  // If every alternative of `expr` needs the byte `end`, and one of them begins with an unbounded
  // repetition, returns that repetition, otherwise kNone. So a text that the repetition matches and
  // that lacks `end` is the beginning of a text of `expr`, but not a whole one.
  ExprId free_text(ExprId expr, uint8_t end) const;
  // Returns an intersection without its parts that are complements, and any other expression
  // unchanged.
  ExprId without_complements(ExprId expr);
  ExprId optional(ExprId part) { return any_of({kEmpty, part}); }
  ExprId star(ExprId part) { return repeat(part, 0, kUnbounded); }
  // Returns an expression that matches any of the texts; common prefixes are shared.
  ExprId any_literal(std::vector<std::string> texts);
  // Makes a kMultiple or kCompare, for number_expr.h.
  ExprId number(ExprKind kind, const NumberState& state);
  uint64_t intern_text(std::string_view text);
  std::string_view text(uint64_t id) const { return texts_[id]; }

  ExprId derivative(ExprId expr, uint8_t byte);
  ExprId derivative(ExprId expr, std::string_view text);
  bool nullable(ExprId expr) const { return nodes_[expr].nullable; }
  bool matches(ExprId expr, std::string_view text) { return nullable(derivative(expr, text)); }
  // Returns exactly whether any string matches. If deciding it exceeds a limit, the store fails.
  bool is_live(ExprId expr);

  // ByteClasses divides the 256 bytes into classes; all bytes of a class give the given expressions
  // the same derivatives.
  struct ByteClasses {
    std::array<uint8_t, 256> class_of;
    std::vector<uint8_t> representatives;  // one byte of each class
  };
  // Returns the classes for these expressions, valid until the next call.
  const ByteClasses& byte_classes(std::span<const ExprId> exprs);

  // Returns a hash that is equal for expressions which no string shorter than kCountHorizon can
  // distinguish.
  const Hash128& hash(ExprId expr) const { return nodes_[expr].hash; }

  ExprKind kind(ExprId expr) const { return nodes_[expr].kind; }
  // These return the children: head() of kConcat, kNot and kRepeat, tail() of kConcat.
  ExprId head(ExprId expr) const { return nodes_[expr].a; }
  ExprId tail(ExprId expr) const { return nodes_[expr].b; }

  size_t num_nodes() const { return nodes_.size(); }
  // Begins a piece of work, such as a mask. Sets how many more expressions may be made, and how many
  // more derivatives examined for emptiness, before the store fails. Earlier work that failed does
  // not matter any more.
  void begin_work(size_t max_work) {
    max_work_ = work_left_ = max_work;
    status_ = {};
  }
  // Sets how many more derivatives may be taken, including those of parts, before the store fails.
  // This bounds the time to compile.
  void limit_derivatives(size_t count) { max_derivatives_ = derivatives_left_ = count; }
  const Status& status() const { return status_; }

 private:
  class Liveness;  // expr_liveness.cc
  struct Node {
    ExprKind kind = ExprKind::kNone;
    bool nullable = false;
    bool has_boolean = false;  // whether emptiness cannot be seen from the form
    uint16_t depth = 0;
    uint32_t min_length = 0;    // length that no match is below; 0 for complements
    uint32_t a = 0, b = 0;      // children; for lists: begin and end in lists_
    uint32_t min = 0, max = 0;  // for kRepeat
    Hash128 hash;               // with counts clamped to kCountHorizon
    friend bool same(const Node& x, const Node& y) {
      return x.kind == y.kind && x.a == y.a && x.b == y.b && x.min == y.min && x.max == y.max;
    }
  };
  std::span<const ExprId> list(const Node& node) const {
    return std::span(lists_).subspan(node.a, node.b - node.a);
  }
  ExprId intern(Node node);
  ExprId intern_list(ExprKind kind, std::vector<ExprId> parts);
  uint64_t intern_key(const Node& node) const;
  void fill_properties(Node& node) const;
  void fill_list_properties(Node& node) const;
  bool same_node(const Node& x, const Node& y) const;
  void merge_byte_alternatives(std::vector<ExprId>& parts);
  ExprId derivative_of_concat(ExprId expr, uint8_t byte);
  ExprId with_counts(ExprId expr, uint32_t from, uint32_t max,
                     std::unordered_map<ExprId, ExprId>& done);
  ExprId trie_of(std::span<const std::string> texts, size_t offset);
  uint32_t intern_set(const ByteSet& set);
  void collect_first_sets(ExprId expr, std::vector<uint32_t>& sets) const;
  void fail(size_t most, std::string_view what);
  void spend_work() {
    if (work_left_ == 0) return fail(max_work_, "expressions made or examined for a mask");
    --work_left_;
  }

  ExprLimits limits_;
  Status status_;
  std::vector<Node> nodes_;
  std::vector<ExprId> lists_;
  std::vector<ByteSet> sets_;
  std::array<ExprId, 256> single_bytes_{};  // kNone if not made yet
  std::unordered_map<ByteSet, uint32_t> set_ids_;
  std::vector<NumberState> numbers_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint64_t> text_ids_;
  std::vector<ExprId> slots_;  // open addressing over nodes_; 0 is free
  std::unordered_map<ExprId, bool> live_;
  // Classes by the byte sets that divide the bytes; few combinations of sets occur, many times
  // each.
  std::unordered_map<Hash128, ByteClasses, Hash128Hasher> byte_classes_;
  std::vector<uint32_t> first_sets_;   // work memory of byte_classes()
  std::vector<uint32_t> number_sets_;  // the byte sets that numbers distinguish
  size_t max_work_ = ~size_t{0}, work_left_ = ~size_t{0};
  size_t max_derivatives_ = ~size_t{0}, derivatives_left_ = ~size_t{0};
};

// The automata behind kMultiple and kCompare, from number_expr.cc.
std::optional<NumberState> number_step(const ExprStore& store, ExprKind kind,
                                       const NumberState& state, uint8_t byte);
bool number_accepts(const ExprStore& store, ExprKind kind, const NumberState& state);

}  // namespace quire::grammar
