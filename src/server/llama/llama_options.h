// Options of sampling that llama.cpp and Ollama write alike, and otherwise than OpenAI.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "server/openai/request_fields.h"

namespace quire::server {

// Each reads `value`, which errors name `where`.
// Most tokens; below zero: as many as the context leaves.
ApiCheck read_num_predict(const std::string& where, const boost::json::value& value,
                          RequestFields& fields);
// A text or a list of texts.
ApiCheck read_stop(const std::string& where, boost::json::value& value, RequestFields& fields);
// Below zero: any.
ApiCheck read_seed(const std::string& where, const boost::json::value& value,
                   RequestFields& fields);

}  // namespace quire::server
