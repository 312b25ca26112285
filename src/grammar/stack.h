// The places of a text in a grammar's rules: Earley's item sets as a graph-structured stack
// (Tomita) whose nodes are values. Equal stacks are one node, so places of a text that have the
// same future are equal too, and their masks are made once.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar_data.h"

namespace quire::grammar {

using NodeId = uint32_t;   // a call that is under way
using PlaceId = uint32_t;  // all that a text so far can be

// Where a call returns to, in the caller's own call.
struct Caller {
  StateId return_state = 0;
  NodeId node = 0;
  friend auto operator<=>(const Caller&, const Caller&) = default;
};

// Terminals under way within one call.
struct Branch {
  LexId lexer_state = 0;
  NodeId node = 0;
  friend auto operator<=>(const Branch&, const Branch&) = default;
};

class Stacks {
 public:
  static constexpr PlaceId kNowhere = 0;  // the text is not of the language

  // `grammar` is locked whenever a method is called.
  explicit Stacks(Grammar& grammar);

  PlaceId start() const { return start_; }
  PlaceId step(PlaceId place, uint8_t byte);
  // Where terminals that lead to `targets` in `node` may end, what follows.
  PlaceId after(std::span<const StateId> targets, NodeId node);

  std::span<const Branch> branches(PlaceId place) const { return places_[place].branches; }
  bool is_complete(PlaceId place) const { return places_[place].is_complete; }
  // Returns hashes that are equal for places whose futures are equal.
  const Hash128& hash(PlaceId place) const { return places_[place].hash; }

  // Forgets all places and nodes made after mark().
  struct Mark {
    size_t num_nodes = 0, num_places = 0;
  };
  Mark mark() const { return {nodes_.size(), places_.size()}; }
  void release(const Mark& mark);

  Status status() const { return status_; }

 private:
  struct Node {
    std::vector<Caller> callers;
    Count count = 0;
    bool is_interned = true;
    Hash128 key;   // of the ids
    Hash128 hash;  // of the content, down to the root
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
