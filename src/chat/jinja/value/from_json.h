// from_json() makes template values from JSON.
#pragma once

#include <boost/json/value.hpp>

#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

// Fails when the JSON is nested deeper than kMaxValueDepth.
Value from_json(Heap& heap, const boost::json::value& json);

}  // namespace quire::jinja
