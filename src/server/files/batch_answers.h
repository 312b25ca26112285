// These functions check the input file of a batch and divide its answers into two files.
#pragma once

#include <boost/json/array.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::server {

// Returns at most 20 errors in the form in which a batch shows them; none when every line is a
// request for `endpoint` with a custom_id of its own. `num_requests` is set to the number of
// requests.
boost::json::array check_batch_input(const std::string& path, std::string_view endpoint,
                                     int64_t& num_requests);

// Writes lines with status 200 to `good` and others to `bad`. A request that was sent twice,
// because the server had stopped in between, gets one line: the good one if there is one.
Status split_batch_answers(const std::string& answers, const std::string& good,
                           const std::string& bad);

}  // namespace quire::server
