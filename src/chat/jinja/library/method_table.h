// A MethodTable finds methods by name. This header is private to methods.cc and string_methods.cc.
#pragma once

#include <map>
#include <string_view>

#include "chat/jinja/value/arguments.h"

namespace quire::jinja {

using Method = Value (*)(Heap&, const Value&, const Arguments&);
using MethodTable = std::map<std::string_view, Method>;

const MethodTable& string_methods();

}  // namespace quire::jinja
