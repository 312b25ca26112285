#include "grammar/rules/rules.h"

#include <algorithm>
#include <bit>
#include <set>

namespace quire::grammar {

std::optional<Count> marked(const Edge& edge, Count count) {
  const auto num_marks = static_cast<uint32_t>(std::popcount(count));
  if (num_marks < edge.min || num_marks > edge.max) return std::nullopt;
  if (edge.kind == EdgeKind::kMarked) {
    return (count & edge.marks) == edge.marks ? std::optional(count) : std::nullopt;
  }
  const Count bit = Count{1} << edge.argument;
  return (count & bit) == 0 ? std::optional(count | bit) : std::nullopt;
}

RuleId Rules::add_rule() {
  rules_.push_back({.start = add_state(), .end = add_state()});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Rules::define(RuleId rule, Fragment body) {
  rules_[rule].is_defined = true;
  add_edge(rules_[rule].start, {.target = body.start});
  add_edge(body.end, {.target = rules_[rule].end});
}

StateId Rules::add_state() {
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

Fragment Rules::empty() {
  const StateId state = add_state();
  return {state, state};
}

Fragment Rules::nothing() { return {add_state(), add_state()}; }

Fragment Rules::terminal(ExprId expr) {
  const Fragment part{add_state(), add_state()};
  if (expr == ExprStore::kEmpty) {
    add_edge(part.start, {.target = part.end});
  } else if (store_.is_live(expr)) {
    add_edge(part.start, {EdgeKind::kTerminal, part.end, expr});
  }
  return part;
}

Fragment Rules::call(RuleId rule) {
  const Fragment part{add_state(), add_state()};
  add_edge(part.start, {EdgeKind::kCall, part.end, rule});
  return part;
}

Fragment Rules::sequence(std::span<const Fragment> parts) {
  if (parts.empty()) return empty();
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    add_edge(parts[i].end, {.target = parts[i + 1].start});
  }
  return {parts.front().start, parts.back().end};
}

Fragment Rules::any_of(std::span<const Fragment> parts) {
  if (parts.size() == 1) return parts.front();
  const Fragment all = nothing();
  for (const Fragment& part : parts) {
    add_edge(all.start, {.target = part.start});
    add_edge(part.end, {.target = all.end});
  }
  return all;
}

Fragment Rules::optional(Fragment part) {
  const Fragment parts[] = {part, empty()};
  return any_of(parts);
}

Fragment Rules::star(Fragment part) {
  const StateId loop = add_state();
  add_edge(loop, {.target = part.start});
  add_edge(part.end, {.target = loop});
  return {loop, loop};
}

Fragment Rules::repeat(Fragment part, Fragment separator, uint32_t min, uint32_t max) {
  if (max == 0) return empty();
  const RuleId rule = add_rule();
  rules_[rule].is_defined = true;
  const uint32_t cap = max == kUnbounded ? std::max(min, 1U) : max;
  set_count_cap(rule, cap);
  const StateId start = rules_[rule].start, end = rules_[rule].end;
  if (min == 0) add_edge(start, {.target = end});
  const uint32_t last = max == kUnbounded ? kUnbounded : max - 1;
  add_edge(start, {EdgeKind::kCount, part.start, 0, 0, last});
  add_edge(part.end, {EdgeKind::kGuard, end, 0, min, kUnbounded});
  add_edge(part.end, {EdgeKind::kGuard, separator.start, 0, 0, last});
  add_edge(separator.end, {EdgeKind::kCount, part.start, 0, 0, last});
  return call(rule);
}

// Assigns each state to the rule whose start leads to it.
void Rules::assign_rules() {
  rule_of_.assign(states_.size(), 0);
  is_final_.assign(states_.size(), false);
  std::vector<bool> seen(states_.size());
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    is_final_[rules_[rule].end] = true;
    std::vector<StateId> todo{rules_[rule].start};
    while (!todo.empty()) {
      const StateId state = todo.back();
      todo.pop_back();
      if (seen[state]) continue;
      seen[state] = true;
      rule_of_[state] = rule;
      for (const Edge& edge : states_[state]) todo.push_back(edge.target);
    }
  }
}

bool Rules::reaches_end_without_bytes(const Rule& rule) const {
  std::set<std::pair<StateId, Count>> seen;
  std::vector<std::pair<StateId, Count>> todo{{rule.start, 0}};
  // A repetition of the empty string that is counted longer is not followed.
  constexpr size_t kMaxSteps = 100'000;
  while (!todo.empty() && seen.size() < kMaxSteps) {
    const auto [state, count] = todo.back();
    todo.pop_back();
    if (state == rule.end) return true;
    if (!seen.insert({state, count}).second) continue;
    for (const Edge& edge : states_[state]) {
      const bool passes = edge.min <= count && count <= edge.max;
      switch (edge.kind) {
        case EdgeKind::kEmpty:
          todo.emplace_back(edge.target, count);
          break;
        case EdgeKind::kTerminal:
          if (store_.nullable(edge.argument)) todo.emplace_back(edge.target, count);
          break;
        case EdgeKind::kCall:
          if (rules_[edge.argument].is_nullable) todo.emplace_back(edge.target, count);
          break;
        case EdgeKind::kGuard:
          if (passes) todo.emplace_back(edge.target, count);
          break;
        case EdgeKind::kCount:
          if (passes) todo.emplace_back(edge.target, std::min<Count>(count + 1, rule.count_cap));
          break;
        case EdgeKind::kMark:
        case EdgeKind::kMarked:
          if (const auto next = marked(edge, count)) todo.emplace_back(edge.target, *next);
          break;
      }
    }
  }
  return false;
}

void Rules::find_nullable_rules() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Rule& rule : rules_) {
      if (rule.is_nullable || !reaches_end_without_bytes(rule)) continue;
      rule.is_nullable = true;
      changed = true;
    }
  }
}

// Adds an empty edge beside every call or terminal that can match the empty string, so that Matcher
// may ignore calls that end where they began (Aycock and Horspool, Practical Earley Parsing, 2002).
void Rules::add_empty_edges() {
  for (auto& edges : states_) {
    for (size_t i = 0; i < edges.size(); ++i) {
      const Edge edge = edges[i];
      const bool is_nullable =
          (edge.kind == EdgeKind::kTerminal && store_.nullable(edge.argument)) ||
          (edge.kind == EdgeKind::kCall && rules_[edge.argument].is_nullable);
      if (is_nullable) edges.push_back({.target = edge.target});
    }
  }
}

// Removes edges from which the rule's end cannot be reached. Returns whether the root has any text.
bool Rules::prune_unproductive() {
  std::vector<std::vector<StateId>> sources(states_.size());  // over edges that do not call rules
  std::vector<std::vector<std::pair<StateId, StateId>>> callers(rules_.size());
  for (StateId state = 0; state < states_.size(); ++state) {
    for (const Edge& edge : states_[state]) {
      if (edge.kind == EdgeKind::kCall) {
        callers[edge.argument].emplace_back(state, edge.target);
      } else {
        sources[edge.target].push_back(state);
      }
    }
  }
  std::vector<std::vector<RuleId>> starts(states_.size());
  std::vector<bool> reaches(states_.size()), productive(rules_.size());
  std::vector<std::vector<StateId>> waiting(states_.size());  // calls that return to the state
  std::vector<StateId> todo;
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    starts[rules_[rule].start].push_back(rule);
    todo.push_back(rules_[rule].end);
  }
  while (!todo.empty()) {
    const StateId state = todo.back();
    todo.pop_back();
    if (reaches[state]) continue;
    reaches[state] = true;
    todo.insert(todo.end(), sources[state].begin(), sources[state].end());
    todo.insert(todo.end(), waiting[state].begin(), waiting[state].end());
    for (const RuleId rule : starts[state]) {
      productive[rule] = true;
      for (const auto& [from, target] : callers[rule]) {
        if (reaches[target]) {
          todo.push_back(from);
        } else {
          waiting[target].push_back(from);
        }
      }
    }
  }
  for (auto& edges : states_) {
    std::erase_if(edges, [&](const Edge& edge) {
      return !reaches[edge.target] || (edge.kind == EdgeKind::kCall && !productive[edge.argument]);
    });
  }
  return productive[root_];
}

// A call after which the caller only ends takes the caller's place, so that right recursion does
// not grow the stack.
void Rules::replace_tail_calls() {
  const auto is_at_end = [&](StateId state) {
    for (int hops = 0; hops < 16; ++hops) {
      if (is_final_[state]) return states_[state].empty();
      if (states_[state].size() != 1 || states_[state][0].kind != EdgeKind::kEmpty) return false;
      state = states_[state][0].target;
    }
    return false;
  };
  for (auto& edges : states_) {
    for (Edge& edge : edges) {
      if (edge.kind != EdgeKind::kCall || counts(edge.argument)) continue;
      if (is_at_end(edge.target)) edge = {.target = rules_[edge.argument].start};
    }
  }
}

std::vector<RuleId> Rules::left_calls(RuleId rule) const {
  std::set<StateId> seen;
  std::vector<RuleId> calls;
  std::vector<StateId> todo{rules_[rule].start};
  while (!todo.empty()) {
    const StateId state = todo.back();
    todo.pop_back();
    if (!seen.insert(state).second) continue;
    for (const Edge& edge : states_[state]) {
      if (edge.kind == EdgeKind::kCall) calls.push_back(edge.argument);
      if (edge.kind != EdgeKind::kCall && edge.kind != EdgeKind::kTerminal) {
        todo.push_back(edge.target);
      }
    }
  }
  std::sort(calls.begin(), calls.end());
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls;
}

// Groups rules by Tarjan's strongly connected components, without recursion. Callees come first.
void Rules::group_left_calls() {
  constexpr uint32_t kNew = ~uint32_t{0};
  struct Frame {
    RuleId rule;
    size_t next = 0;
  };
  std::vector<std::vector<RuleId>> calls(rules_.size());
  for (RuleId rule = 0; rule < rules_.size(); ++rule) calls[rule] = left_calls(rule);
  std::vector<uint32_t> index(rules_.size(), kNew), low(rules_.size());
  std::vector<bool> on_stack(rules_.size());
  std::vector<RuleId> stack;
  uint32_t next_index = 0, num_groups = 0;
  for (RuleId root = 0; root < rules_.size(); ++root) {
    if (index[root] != kNew) continue;
    std::vector<Frame> frames{{root}};
    while (!frames.empty()) {
      const RuleId rule = frames.back().rule;
      if (frames.back().next == 0) {
        index[rule] = low[rule] = next_index++;
        stack.push_back(rule);
        on_stack[rule] = true;
      }
      bool descended = false;
      while (frames.back().next < calls[rule].size()) {
        const RuleId callee = calls[rule][frames.back().next++];
        if (callee == rule) rules_[rule].is_left_recursive = true;
        if (index[callee] == kNew) {
          frames.push_back({callee});
          descended = true;
          break;
        }
        if (on_stack[callee]) low[rule] = std::min(low[rule], index[callee]);
      }
      if (descended) continue;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().rule] = std::min(low[frames.back().rule], low[rule]);
      if (low[rule] != index[rule]) continue;
      const bool is_cycle = stack.back() != rule;
      for (RuleId member = kNew; member != rule;) {
        member = stack.back();
        stack.pop_back();
        on_stack[member] = false;
        rules_[member].left_group = num_groups;
        rules_[member].is_left_recursive |= is_cycle;
      }
      ++num_groups;
    }
  }
  for (Rule& rule : rules_) rule.left_group = num_groups - 1 - rule.left_group;  // callers first
}

Status Rules::finish(RuleId root) {
  root_ = root;
  QUIRE_RETURN_IF_ERROR(store_.status());
  if (states_.size() > max_states_) {
    return invalid_argument("grammar budget: expected at most {} states, got {}", max_states_,
                            states_.size());
  }
  assign_rules();
  find_nullable_rules();
  if (!prune_unproductive()) return invalid_argument("nothing can match: the grammar is empty");
  add_empty_edges();
  replace_tail_calls();
  group_left_calls();
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    if (rules_[rule].is_left_recursive && counts(rule)) {
      return invalid_argument("a counted repetition that begins with itself is not supported");
    }
  }
  return store_.status();
}

}  // namespace quire::grammar
