#include "chat/jinja/run/calls.h"

#include <algorithm>
#include <utility>

#include "chat/jinja/library/methods.h"
#include "chat/jinja/run/evaluator.h"
#include "chat/jinja/run/loops.h"
#include "chat/jinja/run/statements.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Calls::Calls(RunState& state, const std::tm& now, Evaluator& evaluator, Loops& loops,
             Statements& statements)
    : state_(state),
      heap_(state.heap),
      functions_(state.heap, state.cyclic, now),
      evaluator_(evaluator),
      loops_(loops),
      statements_(statements),
      caller_symbol_(state.source.symbol("caller")),
      varargs_symbol_(state.source.symbol("varargs")),
      kwargs_symbol_(state.source.symbol("kwargs")) {}

Value Calls::make_macro(const MacroDef& definition) {
  auto node = std::make_shared<MacroNode>();
  node->charge(heap_, 1024);  // including the scope that it keeps alive
  node->definition = &definition;
  node->scope = state_.variables.scope();
  state_.cyclic.keep(node);
  return Value::node(Kind::kMacro, std::move(node));
}

Value Calls::call(const Value& callee, Arguments arguments) {
  const DepthGuard guard(state_);
  switch (callee.kind()) {
    case Kind::kMacro:
      return call_macro(callee, std::move(arguments));
    case Kind::kFunction:
      return functions_.call(callee.as_function(), arguments);
    case Kind::kLoop:
      return loops_.call(callee, arguments);
    case Kind::kMethod: {
      const auto& method = callee.get<MethodNode>();
      if (method.self.is(Kind::kLoop))
        return loops_.call_method(method.self, method.name, arguments);
      return call_method(heap_, method.self, method.name, arguments);
    }
    case Kind::kJoiner: {
      auto& joiner = callee.get<JoinerNode>();
      return std::exchange(joiner.used, true) ? joiner.separator : make_string(heap_, "");
    }
    case Kind::kUndefined:
      fail_undefined(callee);
    default:
      fail("'{}' object is not callable", type_name(callee));
  }
}

// Binds the parameters as variables of the current scope: first the given arguments, then the
// defaults, which may use earlier parameters.
void Calls::bind_parameters(const MacroDef& macro, Arguments& arguments) {
  const size_t count = macro.parameters.size();
  const size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    if (i < arguments.positional.size()) {
      state_.variables.set(macro.symbols[i], arguments.positional[i]);
      continue;
    }
    const auto given = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (given != arguments.named.end()) {
      state_.variables.set(macro.symbols[i], given->second);
      arguments.named.erase(given);
    } else if (i >= first_default) {
      state_.variables.set(macro.symbols[i],
                           evaluator_.evaluate(*macro.defaults[i - first_default]));
    } else {
      state_.variables.set(
          macro.symbols[i],
          make_undefined(heap_, fmt::format("parameter {} was not provided", quoted(name))));
    }
  }
}

// Binds what no parameter has taken: `caller`, `kwargs` and `varargs`, in a macro that uses them.
void Calls::bind_special(const MacroDef& macro, Arguments& arguments) {
  const bool has_caller_parameter = std::find(macro.parameters.begin(), macro.parameters.end(),
                                              "caller") != macro.parameters.end();
  const auto caller = std::find_if(arguments.named.begin(), arguments.named.end(),
                                   [](const auto& argument) { return argument.first == "caller"; });
  if (macro.uses_caller && !has_caller_parameter) {
    const bool given = caller != arguments.named.end();
    state_.variables.set(caller_symbol_,
                         given ? caller->second : make_undefined(heap_, "No caller defined"));
    if (given) arguments.named.erase(caller);
  }
  if (macro.uses_kwargs) {
    std::vector<Entry> entries;
    for (const auto& [name, value] : arguments.named)
      entries.emplace_back(make_string(heap_, name), value);
    state_.variables.set(kwargs_symbol_, make_dict(heap_, std::move(entries)));
  } else if (!arguments.named.empty()) {
    fail("macro {} takes no keyword argument {}", quoted(macro.name),
         quoted(arguments.named[0].first));
  }
  const size_t count = macro.parameters.size();
  if (macro.uses_varargs) {
    const auto first = arguments.positional.begin() +
                       static_cast<ptrdiff_t>(std::min(count, arguments.positional.size()));
    state_.variables.set(varargs_symbol_,
                         make_tuple(heap_, std::vector<Value>(first, arguments.positional.end())));
  } else if (arguments.positional.size() > count) {
    fail("macro {} takes not more than {} argument(s)", quoted(macro.name), count);
  }
}

Value Calls::call_macro(const Value& callee, Arguments arguments) {
  const auto& node = callee.get<MacroNode>();
  const MacroDef& macro = *node.definition;
  const Variables::ScopeGuard scope(state_.variables, node.scope);
  bind_parameters(macro, arguments);
  bind_special(macro, arguments);
  Output::Capture capture(state_.output);
  statements_.execute(macro.body);
  return make_string(heap_, capture.end());
}

}  // namespace quire::jinja
