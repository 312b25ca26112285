// The certificate and key of a server, ready for handshakes.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "base/result.h"
#include "server/tls/tls_options.h"

namespace quire::server {

// Shared with every connection that was accepted with it, since a later one may replace it.
using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Loads TLS 1.2 and 1.3 for HTTP/1.1. Returns null when `options` ask for none. kInvalidArgument: a
// file cannot be read, is not what it should be, or the key is not the certificate's.
Result<TlsContext> load_tls(const TlsOptions& options);

}  // namespace quire::server
