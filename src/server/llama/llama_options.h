// These sampling options have the same form in llama.cpp and Ollama, and another one in OpenAI's
// API.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "server/openai/request_fields.h"

namespace quire::server {

// Each function reads `value`; `where` names the option in errors. This one reads the largest
// number of tokens; a number below zero means as many as the context leaves.
ApiCheck read_num_predict(const std::string& where, const boost::json::value& value,
                          RequestFields& fields);
// Reads a text or a list of texts.
ApiCheck read_stop(const std::string& where, boost::json::value& value, RequestFields& fields);
// Reads the seed. A number below zero means any seed.
ApiCheck read_seed(const std::string& where, const boost::json::value& value,
                   RequestFields& fields);

}  // namespace quire::server
