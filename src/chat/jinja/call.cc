// Calls are made here: macros, the environment's functions, methods, and the loop object.
#include <algorithm>
#include <array>
#include <utility>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/library/methods.h"
#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Value Interpreter::make_macro(const MacroDef& definition) {
  auto node = std::make_shared<MacroNode>();
  node->charge(heap_, 1024);  // with the scope it keeps alive
  node->definition = &definition;
  node->scope = scope_;
  cyclic_.push_back(node);
  return Value::node(Kind::kMacro, std::move(node));
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  const DepthGuard guard(*this);
  switch (callee.kind()) {
    case Kind::kMacro:
      return call_macro(callee, std::move(arguments));
    case Kind::kFunction:
      return call_function(callee.as_function(), arguments);
    case Kind::kLoop:
      return call_loop(callee, arguments);
    case Kind::kMethod: {
      const auto& method = callee.get<MethodNode>();
      if (method.self.is(Kind::kLoop)) return call_loop_method(method.self, method.name, arguments);
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

// Binds the parameters as variables of the current scope: given ones, then defaults, which may use
// the ones before them.
void Interpreter::bind_parameters(const MacroDef& macro, Arguments& arguments) {
  const size_t count = macro.parameters.size();
  const size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    if (i < arguments.positional.size()) {
      set(macro.symbols[i], arguments.positional[i]);
      continue;
    }
    const auto given = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (given != arguments.named.end()) {
      set(macro.symbols[i], given->second);
      arguments.named.erase(given);
    } else if (i >= first_default) {
      set(macro.symbols[i], evaluate(*macro.defaults[i - first_default]));
    } else {
      set(macro.symbols[i],
          make_undefined(heap_, fmt::format("parameter {} was not provided", quoted(name))));
    }
  }
}

Value Interpreter::call_macro(const Value& callee, Arguments arguments) {
  const auto& node = callee.get<MacroNode>();
  const MacroDef& macro = *node.definition;
  const ScopeGuard scope(*this, node.scope);
  bind_parameters(macro, arguments);
  const bool has_caller_parameter = std::find(macro.parameters.begin(), macro.parameters.end(),
                                              "caller") != macro.parameters.end();
  const auto caller = std::find_if(arguments.named.begin(), arguments.named.end(),
                                   [](const auto& argument) { return argument.first == "caller"; });
  if (macro.uses_caller && !has_caller_parameter) {
    const bool given = caller != arguments.named.end();
    set(caller_symbol_, given ? caller->second : make_undefined(heap_, "No caller defined"));
    if (given) arguments.named.erase(caller);
  }
  if (macro.uses_kwargs) {
    std::vector<Entry> entries;
    for (const auto& [name, value] : arguments.named)
      entries.emplace_back(make_string(heap_, name), value);
    set(kwargs_symbol_, make_dict(heap_, std::move(entries)));
  } else if (!arguments.named.empty()) {
    fail("macro {} takes no keyword argument {}", quoted(macro.name),
         quoted(arguments.named[0].first));
  }
  const size_t count = macro.parameters.size();
  if (macro.uses_varargs) {
    const auto first = arguments.positional.begin() +
                       static_cast<ptrdiff_t>(std::min(count, arguments.positional.size()));
    set(varargs_symbol_, make_tuple(heap_, std::vector<Value>(first, arguments.positional.end())));
  } else if (arguments.positional.size() > count) {
    fail("macro {} takes not more than {} argument(s)", quoted(macro.name), count);
  }
  Buffer buffer(heap_);
  Buffer* const saved = std::exchange(capture_, &buffer);
  try {
    execute(macro.body);
  } catch (...) {
    capture_ = saved;
    throw;
  }
  capture_ = saved;
  return make_string(heap_, buffer.text());
}

Value Interpreter::make_dict_of(const Arguments& arguments) {
  std::vector<Entry> entries;
  if (arguments.positional.size() > 1)
    fail("dict expected at most 1 argument, got {}", arguments.positional.size());
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      entries = source.dict().entries;
    } else {
      for (const Value& item : items_of(heap_, source)) {
        const std::vector<Value> pair = items_of(heap_, item);
        if (pair.size() != 2) {
          fail("dictionary update sequence element has length {}; 2 is required", pair.size());
        }
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    entries.emplace_back(make_string(heap_, name), value);
  return make_dict(heap_, std::move(entries));
}

Value Interpreter::make_namespace(const Arguments& arguments) {
  const Value initial = make_dict_of(arguments);
  auto node = std::make_shared<NamespaceNode>();
  node->charge(heap_, 256);
  for (const auto& [key, value] : initial.dict().entries) {
    if (!key.is_string()) continue;  // no template can name it
    if (key.text().starts_with("_")) {
      fail("cannot store underscore-prefixed attributes on a namespace, got {}",
           quoted(key.text()));
    }
    node->charge(heap_, 128);
    node->attributes.emplace_back(std::string(key.text()), value);
  }
  cyclic_.push_back(node);
  return Value::node(Kind::kNamespace, std::move(node));
}

// Does strftime of the C locale. Microseconds are zero and the zone is unnamed, as for Python's
// naive datetime.
Value Interpreter::format_now(const Arguments& arguments) {
  constexpr size_t kMaxBytes = 4096;
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string_view given = bound.text(0);
  if (given.size() > kMaxBytes / 4) fail_limit("strftime_now: the format is too long");
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] != '%' || i + 1 >= given.size()) {
      if (given[i] == '\0') fail("strftime_now: embedded null character");
      format += given[i];
      continue;
    }
    const char conversion = given[++i];
    if (conversion == 'f') {
      format += "000000";
    } else if (conversion != 'z' && conversion != 'Z') {
      format += {'%', conversion};
    }
  }
  if (format.empty()) return make_string(heap_, "");
  std::array<char, kMaxBytes> buffer;
  format += 'x';  // tells an empty result from one that does not fit
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now_);
  if (size == 0) fail_limit("strftime_now: the result exceeds {} bytes", kMaxBytes);
  return make_string(heap_, std::string(buffer.data(), size - 1));
}

Value Interpreter::call_function(Function function, const Arguments& arguments) {
  switch (function) {
    case Function::kRange: {
      const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
      if (!bound.has(1)) return make_range(heap_, 0, bound.integer(0), 1);
      return make_range(heap_, bound.integer(0), bound.integer(1), bound.integer_or(2, 1));
    }
    case Function::kDict:
      return make_dict_of(arguments);
    case Function::kNamespace:
      return make_namespace(arguments);
    case Function::kRaiseException: {
      const Bound bound("raise_exception", arguments, {"message"}, 1);
      throw Error{.status = Status(StatusCode::kInvalidArgument, to_str(heap_, bound[0])),
                  .from_template = true};
    }
    case Function::kStrftimeNow:
      return format_now(arguments);
    case Function::kCycler:
      return make_cycler(heap_, arguments.positional);
    case Function::kJoiner: {
      const Bound bound("joiner", arguments, {"sep"});
      return make_joiner(heap_, bound.has(0) ? bound[0] : make_string(heap_, ", "));
    }
  }
  fail("unknown function");
}

Value Interpreter::call_loop(const Value& callee, const Arguments& arguments) {
  const auto& loop = callee.get<LoopNode>();
  if (!loop.statement->is_recursive) {
    fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound("loop", arguments, {"iterable"}, 1);
  if (!is_iterable(bound[0])) fail("'{}' object is not iterable", type_name(bound[0]));
  Buffer buffer(heap_);
  const ScopeGuard scope(*this, loop.scope);
  Buffer* const saved = std::exchange(capture_, &buffer);
  try {
    run_loop(*loop.statement, items_of(heap_, bound[0]), loop.depth0 + 1);
  } catch (...) {
    capture_ = saved;
    throw;
  }
  capture_ = saved;
  return make_string(heap_, buffer.text());
}

Value Interpreter::call_loop_method(const Value& self, std::string_view name,
                                    const Arguments& arguments) {
  auto& loop = self.get<LoopNode>();
  if (!arguments.named.empty()) fail("loop.{}() takes no keyword arguments", name);
  const std::vector<Value>& values = arguments.positional;
  if (name == "cycle") {
    if (values.empty()) fail("no items for cycling given");
    return values[static_cast<size_t>(loop.index0) % values.size()];
  }
  const bool same = loop.has_changed && loop.last_changed.size() == values.size() &&
                    std::equal(values.begin(), values.end(), loop.last_changed.begin(),
                               [&](const Value& a, const Value& b) { return equals(heap_, a, b); });
  if (same) return Value::boolean(false);
  loop.has_changed = true;
  loop.last_changed = values;
  return Value::boolean(true);
}

Value Interpreter::loop_attribute(const Value& self, std::string_view name) {
  auto& loop = self.get<LoopNode>();
  const int64_t index0 = loop.index0;
  const auto has_next = [&] {
    return index0 + 1 < static_cast<int64_t>(loop.accepted.size()) || accept_next(loop);
  };
  const auto length = [&] {
    while (accept_next(loop)) {
    }
    return static_cast<int64_t>(loop.accepted.size());
  };
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(!has_next());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0);
  if (name == "revindex0") return Value::integer(length() - index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") {
    if (index0 <= 0) return make_undefined(heap_, "there is no previous item");
    return loop.accepted[static_cast<size_t>(index0 - 1)];
  }
  if (name == "nextitem") {
    if (!has_next()) return make_undefined(heap_, "there is no next item");
    return loop.accepted[static_cast<size_t>(index0 + 1)];
  }
  if (name == "cycle" || name == "changed") return make_method(heap_, self, name);
  return undefined_attribute(heap_, self, name);
}

Value Interpreter::from_json(const boost::json::value& json, int depth) {
  if (depth > kMaxValueDepth) fail_limit("the context nests deeper than {}", kMaxValueDepth);
  heap_.tick();
  switch (json.kind()) {
    case boost::json::kind::null:
      return {};
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64: {
      const uint64_t number = json.get_uint64();
      if (number > static_cast<uint64_t>(INT64_MAX)) return Value::large(number);
      return Value::integer(static_cast<int64_t>(number));
    }
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string: {
      const boost::json::string& text = json.get_string();
      heap_.check_room(text.size());
      return make_string(heap_, std::string(text.data(), text.size()));
    }
    case boost::json::kind::array: {
      std::vector<Value> items;
      heap_.check_room(json.get_array().size() * sizeof(Value));
      items.reserve(json.get_array().size());
      for (const boost::json::value& item : json.get_array())
        items.push_back(from_json(item, depth + 1));
      return make_list(heap_, std::move(items));
    }
    case boost::json::kind::object:
      break;
  }
  std::vector<Entry> entries;
  heap_.check_room(json.get_object().size() * sizeof(Entry));
  entries.reserve(json.get_object().size());
  for (const auto& [key, item] : json.get_object()) {
    Value name = make_string(heap_, std::string(key.data(), key.size()));
    entries.emplace_back(std::move(name), from_json(item, depth + 1));
  }
  return make_dict(heap_, std::move(entries));
}

}  // namespace quire::jinja
