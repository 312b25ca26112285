// Files of a batch: what is wrong with its requests, and its answers in two files.
#pragma once

#include <boost/json/array.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::server {

// Returns errors as a batch shows them, at most 20; none when every line is a request for
// `endpoint` with an id of its own. `num_requests` becomes how many there are.
boost::json::array check_batch_input(const std::string& path, std::string_view endpoint,
                                     int64_t& num_requests);

// Lines with status 200 go to `good`, others to `bad`. A request that was asked again, since the
// server had stopped, stands in one line: the good one where there is one.
Status split_batch_answers(const std::string& answers, const std::string& good,
                           const std::string& bad);

}  // namespace quire::server
