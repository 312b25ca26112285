#include "chat/jinja/run/functions.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {

Value Functions::named(std::string_view name) {
  constexpr std::pair<std::string_view, Function> kFunctions[] = {
      {"range", Function::kRange},
      {"dict", Function::kDict},
      {"namespace", Function::kNamespace},
      {"raise_exception", Function::kRaiseException},
      {"strftime_now", Function::kStrftimeNow},
      {"cycler", Function::kCycler},
      {"joiner", Function::kJoiner}};
  for (const auto& [have, function] : kFunctions) {
    if (have == name) return Value::function(function);
  }
  return {};
}

Value Functions::make_dict_of(const Arguments& arguments) {
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

Value Functions::make_namespace(const Arguments& arguments) {
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
  cyclic_.keep(node);
  return Value::node(Kind::kNamespace, std::move(node));
}

// Computes strftime in the C locale. Microseconds are zero and the zone has no name, as for
// Python's naive datetime.
Value Functions::format_now(const Arguments& arguments) {
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
  format += 'x';  // distinguishes an empty result from one that does not fit
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now_);
  if (size == 0) fail_limit("strftime_now: the result exceeds {} bytes", kMaxBytes);
  return make_string(heap_, std::string(buffer.data(), size - 1));
}

Value Functions::call(Function function, const Arguments& arguments) {
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

}  // namespace quire::jinja
