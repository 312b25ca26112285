// JSON as values of templates.
#pragma once

#include <boost/json/value.hpp>

#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

// Fails where it nests deeper than kMaxValueDepth.
Value from_json(Heap& heap, const boost::json::value& json);

}  // namespace quire::jinja
