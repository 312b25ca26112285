// TlsTrust holds the certificate authorities that a client trusts.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/result.h"

namespace quire::net {

// All connections of a client share it. It allows TLS 1.2 and 1.3, and certificates are always
// checked.
using TlsTrust = std::shared_ptr<boost::asio::ssl::context>;

// `ca_file` is a PEM file of trusted authorities, which replaces the system's; empty: the system's.
// kInvalidArgument: it cannot be read or has no such content.
Result<TlsTrust> load_trust(const std::string& ca_file);

}  // namespace quire::net
