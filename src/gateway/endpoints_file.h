// This is the parser of the file that lists a gateway's backends, which may change while the
// gateway runs. The file has one of these forms:
//
//   http://10.0.0.1:8000        # one address per line
//
//   endpoints:                  # llm-d's file discovery
//   - name: a
//     address: 10.0.0.1
//     port: "8000"
//
//   {"endpoints": [{"address": "10.0.0.1", "port": 8000}]}
//
// Of llm-d's members only address and port are used; others are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/backend.h"

namespace quire::gateway {

// Reads at least one backend. kInvalidArgument says what was expected, where, and what the text
// has.
Result<std::vector<BackendAddress>> parse_endpoints(std::string_view text);

// Reads a file of at most 1 MiB as parse_endpoints() does. kNotFound: the file cannot be read.
Result<std::vector<BackendAddress>> read_endpoints_file(const std::string& path);

}  // namespace quire::gateway
