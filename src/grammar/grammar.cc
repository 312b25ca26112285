#include "grammar/grammar.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "grammar/dialects/lark.h"
#include "grammar/dialects/structural_tag.h"
#include "grammar/grammar_data.h"
#include "grammar/json_schema/json_schema.h"
#include "grammar/read/ebnf.h"
#include "grammar/read/regex.h"
#include "grammar/rules/encoding.h"

namespace quire::grammar {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

Result<ExprId> choice_expr(ExprStore& store, const std::vector<std::string>& choices) {
  if (choices.empty()) return invalid_argument("choice: expected at least one string, got none");
  return store.any_literal(choices);
}

Result<RuleId> build(Grammar& grammar, const GrammarSource& source) {
  Rules& rules = grammar.rules;
  const auto from_expr = [&](ExprId expr) {
    const RuleId root = rules.add_rule();
    rules.define(root, rules.terminal(expr));
    return root;
  };
  switch (source.kind) {
    case GrammarKind::kJsonSchema:
      return json_schema_rule(grammar.store, rules, source.text, source.json);
    case GrammarKind::kJsonObject:
      return json_schema_rule(grammar.store, rules, R"({"type": "object"})", source.json);
    case GrammarKind::kEbnf:
      return ebnf_rule(grammar.store, rules, source.text);
    case GrammarKind::kLark:
      return lark_rule(grammar.store, rules, source.text, source.json, source.special_tokens);
    case GrammarKind::kStructuralTag:
      return structural_tag_rule(grammar.store, rules, source.text, source.json,
                                 source.special_tokens);
    case GrammarKind::kRegex: {
      Encoder encoder(grammar.store, TextForm::kPlain);
      QUIRE_ASSIGN_OR_RETURN(const ExprId expr, regex_expr(encoder, source.text));
      return from_expr(expr);
    }
    case GrammarKind::kChoice: {
      QUIRE_ASSIGN_OR_RETURN(const ExprId expr, choice_expr(grammar.store, source.choices));
      return from_expr(expr);
    }
  }
  return internal_error("an unknown kind of grammar");
}

}  // namespace

Grammar::Grammar(const GrammarLimits& limits)
    : limits(limits),
      serial(next_serial()),
      store({.max_nodes = limits.max_expressions}),
      rules(store, limits.max_states),
      lexer(store, limits.max_lexer_states) {}

const Closure& Grammar::closure(StateId state, Count count) {
  const Hash128 key = Hash128().mix(state).mix(count);
  if (const auto known = closures_.find(key); known != closures_.end()) return known->second;
  Closure made = make_closure(state, count);
  if (!lexer.status().ok()) return cut_short_ = std::move(made);
  return closures_.emplace(key, std::move(made)).first->second;
}

Closure Grammar::make_closure(StateId state, Count count) {
  Closure out;
  std::vector<LexEntry> entries;
  std::vector<StateId> todo{state};
  std::unordered_set<StateId> seen;
  while (!todo.empty()) {
    const StateId at = todo.back();
    todo.pop_back();
    if (!seen.insert(at).second) continue;
    out.is_end |= rules.is_final(at);
    for (const Edge& edge : rules.edges(at)) {
      const bool passes = edge.min <= count && count <= edge.max;
      switch (edge.kind) {
        case EdgeKind::kEmpty:
          todo.push_back(edge.target);
          break;
        case EdgeKind::kTerminal:
          entries.push_back({edge.argument, edge.target});
          break;
        case EdgeKind::kCall:
          out.calls.push_back({edge.argument, edge.target});
          break;
        case EdgeKind::kGuard:
          if (passes) todo.push_back(edge.target);
          break;
        case EdgeKind::kCount: {
          const Count cap = rules.count_cap(rules.rule_of(at));
          if (passes) out.counted.push_back({edge.target, std::min(count + 1, cap)});
          break;
        }
        case EdgeKind::kMark:
          if (const auto next = marked(edge, count)) out.counted.push_back({edge.target, *next});
          break;
        case EdgeKind::kMarked:
          if (marked(edge, count)) todo.push_back(edge.target);
          break;
      }
    }
  }
  out.lexer_state = lexer.intern(std::move(entries));
  return out;
}

bool is_crowded(const Grammar& grammar) { return grammar.crowded.load(std::memory_order_relaxed); }

size_t memory_bytes(const Grammar& grammar) {
  // With the memory of what is stored beside each.
  constexpr size_t kExprBytes = 96, kStateBytes = 64;
  const std::lock_guard lock(grammar.mutex);
  return sizeof(Grammar) + grammar.store.num_nodes() * kExprBytes +
         grammar.rules.num_states() * kStateBytes + grammar.lexer.memory_bytes();
}

Result<std::shared_ptr<const Grammar>> compile(const GrammarSource& source,
                                               const GrammarLimits& limits) {
  size_t num_bytes = source.text.size();
  for (const std::string& choice : source.choices) num_bytes += choice.size();
  if (num_bytes > limits.max_source_bytes) {
    return too_large("grammar: expected at most {} bytes, got {}", limits.max_source_bytes,
                     num_bytes);
  }
  auto grammar = std::make_shared<Grammar>(limits);
  grammar->store.limit_derivatives(limits.max_compile_derivatives);
  QUIRE_ASSIGN_OR_RETURN(const RuleId body, build(*grammar, source));
  // The root is a rule that no rule calls and that neither counts nor recurses.
  const RuleId root = grammar->rules.add_rule();
  const Fragment end[] = {grammar->rules.call(body), grammar->rules.empty()};
  grammar->rules.define(root, grammar->rules.sequence(end));
  QUIRE_RETURN_IF_ERROR(grammar->rules.finish(root));
  grammar->store.limit_derivatives(~size_t{0});  // from here on, each mask has a limit
  return std::shared_ptr<const Grammar>(std::move(grammar));
}

}  // namespace quire::grammar
