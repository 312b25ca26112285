// json_response() makes an answer of one JSON value.
#pragma once

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "server/http/http_types.h"

namespace quire::server {

inline HttpResponse json_response(const boost::json::value& body) {
  return {200, "application/json", boost::json::serialize(body), {}};
}

}  // namespace quire::server
