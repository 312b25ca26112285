// These are the fields of requests of llama.cpp's server, and how they become fields of a
// completion.
#pragma once

#include <boost/json/object.hpp>
#include <span>

#include "server/llama/fill_in.h"
#include "server/openai/request_fields.h"

namespace quire::server {

std::span<const Field> llama_field_table();

// Reads what is around the gap of an /infill request, and removes those members from `body`.
ApiResult<FillIn> read_fill_in(boost::json::object& body);

}  // namespace quire::server
