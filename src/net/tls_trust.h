// Whose certificates a client believes.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire::net {

// Shared by all connections that are made with it. TLS 1.2 and 1.3; certificates are always checked.
using TlsTrust = std::shared_ptr<boost::asio::ssl::context>;

// `ca_file`: PEM file of the authorities that are believed, instead of the system's; empty: the
// system's. kInvalidArgument: it cannot be read, or is no such file.
Result<TlsTrust> load_trust(const std::string& ca_file);

}  // namespace quire::net
