// The file that tells a gateway its backends, which may change while it runs. One of
//
//   http://10.0.0.1:8000        # an address a line
//
//   endpoints:                  # llm-d's file discovery
//   - name: a
//     address: 10.0.0.1
//     port: "8000"
//
//   {"endpoints": [{"address": "10.0.0.1", "port": 8000}]}
//
// Of llm-d's members only address and port matter; others are read over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/backend.h"

namespace quire::gateway {

// Reads at least one backend. kInvalidArgument says what was expected where, and what is there.
Result<std::vector<BackendAddress>> parse_endpoints(std::string_view text);

// As parse_endpoints(), of a file of at most 1 MiB. kNotFound: there is none that can be read.
Result<std::vector<BackendAddress>> read_endpoints_file(const std::string& path);

}  // namespace quire::gateway
