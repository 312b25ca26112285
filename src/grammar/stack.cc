#include "grammar/stack.h"

#include <algorithm>
#include <map>
#include <set>

#include "grammar/rules/budget.h"

namespace quire::grammar {
namespace {

constexpr NodeId kRootNode = 0;

}  // namespace

// Closer finds everything that rule states lead to without reading a byte: first ends, and returns
// to open calls; then new calls, callers before callees, so that a call's callers are all known
// when its node is made.
class Stacks::Closer {
 public:
  explicit Closer(Stacks& stacks) : stacks_(stacks), grammar_(stacks.grammar_) {}

  void add_branch(Branch branch) { branches_.push_back(branch); }
  void add(StateId state, NodeId node, bool is_new = false) {
    const Item item{state, node, is_new};
    if (seen_.insert(item).second) todo_.push_back(item);
    if (seen_.size() > stacks_.grammar_.limits.max_stacks * 8) over_budget();
  }

  PlaceId finish() {
    drain();
    while (!pending_.empty() && stacks_.status_.ok()) {
      const uint32_t group = pending_.begin()->first;
      auto entries = std::move(pending_.begin()->second);
      pending_.erase(pending_.begin());
      std::sort(entries.begin(), entries.end());
      entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
      if (grammar_.rules.is_left_recursive(entries.front().first)) {
        open_cycle(group, entries);
      } else {
        open_call(entries);
      }
      drain();
    }
    if (branches_.size() > grammar_.limits.max_stacks) over_budget();
    if (!stacks_.status_.ok()) return kNowhere;
    return stacks_.intern_place(std::move(branches_), is_complete_);
  }

 private:
  using Entry = std::pair<RuleId, Caller>;

  void over_budget() {
    stacks_.status_ =
        grammar::over_budget(grammar_.limits.max_stacks, "alternatives at one place of the text");
    todo_.clear();
  }

  void drain() {
    while (!todo_.empty()) {
      const Item item = todo_.back();
      todo_.pop_back();
      const Count count = stacks_.nodes_[item.node].count;
      const Closure& closure = grammar_.closure(item.state, count);
      if (closure.lexer_state != Lexer::kDead) add_branch({closure.lexer_state, item.node});
      if (closure.is_end && !item.is_new) end_call(item.node);
      for (const Closure::Counted& counted : closure.counted) {
        add(counted.state, recounted(item.node, counted.count), item.is_new);
      }
      for (const Closure::Call& call : closure.calls) {
        pending_[grammar_.rules.left_group(call.rule)].push_back(
            {call.rule, {call.return_state, item.node}});
      }
    }
  }

  NodeId recounted(NodeId node, Count count) {
    return stacks_.intern_node(stacks_.nodes_[node].callers, count);
  }

  void end_call(NodeId node) {
    if (node == kRootNode) is_complete_ = true;
    for (size_t i = 0; i < stacks_.nodes_[node].callers.size(); ++i) {
      const Caller caller = stacks_.nodes_[node].callers[i];
      add(caller.return_state, caller.node);
    }
  }

  void open_call(const std::vector<Entry>& entries) {
    std::vector<Caller> callers;
    callers.reserve(entries.size());
    for (const Entry& entry : entries) callers.push_back(entry.second);
    const NodeId node = stacks_.intern_node(std::move(callers), 0);
    add(grammar_.rules.start(entries.front().first), node, true);
  }

  // Opens rules that call each other before any byte: each gets one node, whose callers include the
  // nodes of the group.
  void open_cycle(uint32_t group, const std::vector<Entry>& entries) {
    std::vector<RuleId> members;
    std::vector<RuleId> todo;
    todo.reserve(entries.size());
    for (const Entry& entry : entries) todo.push_back(entry.first);
    while (!todo.empty()) {
      const RuleId rule = todo.back();
      todo.pop_back();
      if (std::find(members.begin(), members.end(), rule) != members.end()) continue;
      members.push_back(rule);
      for (const Closure::Call& call : grammar_.closure(grammar_.rules.start(rule), 0).calls) {
        if (grammar_.rules.left_group(call.rule) == group) todo.push_back(call.rule);
      }
    }
    std::sort(members.begin(), members.end());
    const NodeId base = stacks_.make_cyclic_nodes(entries, members);
    for (size_t i = 0; i < members.size(); ++i) {
      const auto node = static_cast<NodeId>(base + i);
      const Closure& closure = grammar_.closure(grammar_.rules.start(members[i]), 0);
      if (closure.lexer_state != Lexer::kDead) add_branch({closure.lexer_state, node});
      for (const Closure::Call& call : closure.calls) {
        const uint32_t callee_group = grammar_.rules.left_group(call.rule);
        if (callee_group == group) continue;
        pending_[callee_group].push_back({call.rule, {call.return_state, node}});
      }
    }
  }

  Stacks& stacks_;
  Grammar& grammar_;
  std::vector<Branch> branches_;
  bool is_complete_ = false;
  std::vector<Item> todo_;
  std::set<Item> seen_;
  std::map<uint32_t, std::vector<Entry>> pending_;  // by left_group
};

Stacks::Stacks(Grammar& grammar) : grammar_(grammar) {
  nodes_.emplace_back();
  places_.emplace_back();
  Closer closer(*this);
  closer.add(grammar.rules.start(grammar.rules.root()), kRootNode);
  start_ = closer.finish();
}

NodeId Stacks::intern_node(std::vector<Caller> callers, Count count) {
  std::sort(callers.begin(), callers.end());
  Hash128 key;
  key.mix(count);
  for (const Caller& caller : callers) key.mix(uint64_t{caller.return_state} << 32 | caller.node);
  const auto [it, is_new] = node_ids_.try_emplace(key, static_cast<NodeId>(nodes_.size()));
  if (!is_new) return it->second;
  if (nodes_.size() >= grammar_.limits.max_stack_nodes) {
    status_ = over_budget(grammar_.limits.max_stack_nodes, "stack nodes");
  }
  Node node{.callers = std::move(callers), .count = count, .key = key};
  std::vector<Hash128> parts;
  for (const Caller& caller : node.callers) {
    parts.push_back(Hash128().mix(caller.return_state).mix(nodes_[caller.node].hash));
  }
  std::sort(parts.begin(), parts.end());
  node.hash.mix(count);
  for (const Hash128& part : parts) node.hash.mix(part);
  nodes_.push_back(std::move(node));
  return it->second;
}

// The callers from outside the cycle determine its nodes, and so their hashes.
NodeId Stacks::make_cyclic_nodes(std::span<const std::pair<RuleId, Caller>> entries,
                                 std::span<const RuleId> members) {
  Hash128 key;
  key.mix(~uint64_t{0});
  std::vector<Hash128> parts;
  for (const auto& [rule, caller] : entries) {
    key.mix(rule).mix(uint64_t{caller.return_state} << 32 | caller.node);
    parts.push_back(Hash128().mix(rule).mix(caller.return_state).mix(nodes_[caller.node].hash));
  }
  const auto base = static_cast<NodeId>(nodes_.size());
  const auto [it, is_new] = node_ids_.try_emplace(key, base);
  if (!is_new) return it->second;
  std::sort(parts.begin(), parts.end());
  Hash128 hash;
  for (const Hash128& part : parts) hash.mix(part);
  for (size_t i = 0; i < members.size(); ++i) {
    Node node{.is_interned = i == 0, .key = key};
    node.hash = hash;
    node.hash.mix(~members[i]);
    nodes_.push_back(std::move(node));
  }
  const auto node_of = [&](RuleId rule) {
    const auto at = std::lower_bound(members.begin(), members.end(), rule);
    return static_cast<NodeId>(base + (at - members.begin()));
  };
  for (const auto& [rule, caller] : entries) nodes_[node_of(rule)].callers.push_back(caller);
  for (const RuleId member : members) {
    for (const Closure::Call& call : grammar_.closure(grammar_.rules.start(member), 0).calls) {
      if (!std::binary_search(members.begin(), members.end(), call.rule)) continue;
      nodes_[node_of(call.rule)].callers.push_back({call.return_state, node_of(member)});
    }
  }
  return base;
}

PlaceId Stacks::intern_place(std::vector<Branch> branches, bool is_complete) {
  std::sort(branches.begin(), branches.end());
  branches.erase(std::unique(branches.begin(), branches.end()), branches.end());
  if (branches.empty() && !is_complete) return kNowhere;
  Hash128 key;
  key.mix(is_complete);
  for (const Branch& branch : branches) key.mix(uint64_t{branch.lexer_state} << 32 | branch.node);
  const auto [it, is_new] = place_ids_.try_emplace(key, static_cast<PlaceId>(places_.size()));
  if (!is_new) return it->second;
  Place place{.branches = std::move(branches), .is_complete = is_complete, .key = key};
  std::vector<Hash128> parts;
  for (const Branch& branch : place.branches) {
    parts.push_back(Hash128().mix(branch.lexer_state).mix(nodes_[branch.node].hash));
  }
  std::sort(parts.begin(), parts.end());
  place.hash.mix(grammar_.serial).mix(is_complete);
  for (const Hash128& part : parts) place.hash.mix(part);
  places_.push_back(std::move(place));
  return it->second;
}

PlaceId Stacks::step(PlaceId place, uint8_t byte) {
  Closer closer(*this);
  std::vector<Branch> stepped;
  bool has_ends = false;
  for (const Branch& branch : places_[place].branches) {
    const LexId next = grammar_.lexer.step(branch.lexer_state, byte);
    if (next == Lexer::kDead) continue;
    stepped.push_back({next, branch.node});
    has_ends |= !grammar_.lexer.ends(next).empty();
  }
  if (stepped.empty()) return kNowhere;
  if (!has_ends) return intern_place(std::move(stepped), false);
  for (const Branch& branch : stepped) {
    closer.add_branch(branch);
    for (const StateId target : grammar_.lexer.ends(branch.lexer_state)) {
      closer.add(target, branch.node);
    }
  }
  return closer.finish();
}

PlaceId Stacks::after(std::span<const StateId> targets, NodeId node) {
  Closer closer(*this);
  for (const StateId target : targets) closer.add(target, node);
  return closer.finish();
}

void Stacks::release(const Mark& mark) {
  for (; nodes_.size() > mark.num_nodes; nodes_.pop_back()) {
    if (nodes_.back().is_interned) node_ids_.erase(nodes_.back().key);
  }
  for (; places_.size() > mark.num_places; places_.pop_back()) {
    place_ids_.erase(places_.back().key);
  }
}

}  // namespace quire::grammar
