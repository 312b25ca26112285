// These functions read the fields of a request that restrict its whole answer: response_format and
// structured_outputs.
#pragma once

#include <boost/json/value.hpp>
#include <optional>

#include "core/structured_outputs.h"
#include "server/http/api_error.h"

namespace quire::server {

// Returns nullopt for {"type": "text"}.
ApiResult<std::optional<StructuredOutputs>> read_response_format(const boost::json::value& value);
ApiResult<std::optional<StructuredOutputs>> read_structured_outputs(
    const boost::json::value& value);

}  // namespace quire::server
