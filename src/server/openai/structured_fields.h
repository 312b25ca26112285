// The fields of a request that say what its whole answer must be: response_format and
// structured_outputs.
#pragma once

#include <boost/json/value.hpp>
#include <optional>

#include "core/structured_outputs.h"
#include "server/http/api_error.h"

namespace quire::server {

// {"type": "text"} gives nothing.
ApiResult<std::optional<StructuredOutputs>> read_response_format(const boost::json::value& value);
ApiResult<std::optional<StructuredOutputs>> read_structured_outputs(
    const boost::json::value& value);

}  // namespace quire::server
