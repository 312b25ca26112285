// Stacks stores where a text can be in a grammar's rules: Earley's item sets as a graph-structured
// stack (Tomita). Equal stacks are one node, so positions with equal futures are equal too, and
// their masks are computed once.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar_data.h"

namespace quire::grammar {

using NodeId = uint32_t;   // a call of a rule that has not ended
using PlaceId = uint32_t;  // the set of all positions that a text can have in the rules

// A Caller is where a call returns to: a state in the caller's own call.
struct Caller {
  StateId return_state = 0;
  NodeId node = 0;
  friend auto operator<=>(const Caller&, const Caller&) = default;
};

// A Branch is the state of the lexer for the terminals within one call.
struct Branch {
  LexId lexer_state = 0;
  NodeId node = 0;
  friend auto operator<=>(const Branch&, const Branch&) = default;
};

class Stacks {
 public:
  static constexpr PlaceId kNowhere = 0;  // the text does not belong to the language

  // The caller of every method holds the grammar's lock.
  explicit Stacks(Grammar& grammar);

  PlaceId start() const { return start_; }
  PlaceId step(PlaceId place, uint8_t byte);
  // Returns the place that follows when terminals that lead to `targets` in `node` end.
  PlaceId after(std::span<const StateId> targets, NodeId node);

  std::span<const Branch> branches(PlaceId place) const { return places_[place].branches; }
  bool is_complete(PlaceId place) const { return places_[place].is_complete; }
  // Returns a hash that is equal for places whose futures are equal.
  const Hash128& hash(PlaceId place) const { return places_[place].hash; }

  // release() removes all places and nodes that were made after mark().
  struct Mark {
    size_t num_nodes = 0, num_places = 0;
  };
  Mark mark() const { return {nodes_.size(), places_.size()}; }
  void release(const Mark& mark);

  // Returns the limit that a call exceeded since begin_work(). What it returned is then wrong, and
  // so are the places and nodes that it made, until they are released.
  const Status& status() const { return status_; }
  void begin_work() { status_ = {}; }

 private:
  struct Node {
    std::vector<Caller> callers;
    Count count = 0;
    bool is_interned = true;
    Hash128 key;   // hash of the ids
    Hash128 hash;  // hash of the content, down to the root
  };
  struct Place {
    std::vector<Branch> branches;
    bool is_complete = false;
    Hash128 key;
    Hash128 hash;
  };
  struct Item {
    StateId state = 0;
    NodeId node = 0;
    bool is_new =
        false;  // the node was made at this place: its end here is an empty edge elsewhere
    friend auto operator<=>(const Item&, const Item&) = default;
  };
  class Closer;

  NodeId intern_node(std::vector<Caller> callers, Count count);
  NodeId make_cyclic_nodes(std::span<const std::pair<RuleId, Caller>> entries,
                           std::span<const RuleId> members);
  PlaceId intern_place(std::vector<Branch> branches, bool is_complete);

  Grammar& grammar_;
  Status status_;
  std::vector<Node> nodes_;
  std::vector<Place> places_;
  std::unordered_map<Hash128, NodeId, Hash128Hasher> node_ids_;
  std::unordered_map<Hash128, PlaceId, Hash128Hasher> place_ids_;
  PlaceId start_ = kNowhere;
};

}  // namespace quire::grammar
