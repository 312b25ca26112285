#include "chat/jinja/run/interpreter.h"

#include <string_view>

#include "chat/jinja/value/from_json.h"

namespace quire::jinja {

std::string Interpreter::run(const boost::json::object& context) {
  const Template& source = state_.source;
  for (const auto& [name, json] : context) {
    const auto it = source.symbol_of.find(std::string_view(name.data(), name.size()));
    if (it != source.symbol_of.end())
      state_.variables.set(it->second, from_json(state_.heap, json));
  }
  statements_.execute(source.body);
  return state_.output.take();
}

}  // namespace quire::jinja
