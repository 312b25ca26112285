// TlsContext is the certificate and key of a server, ready for handshakes.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "base/result.h"
#include "server/tls/tls_options.h"

namespace quire::server {

// Each connection shares the context with which it was accepted, because a later one may replace
// it.
using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Loads the files for HTTP/1.1 over TLS 1.2 and 1.3. Returns null when `options` name none.
// kInvalidArgument: a file cannot be read or has the wrong content, or the key does not belong to
// the certificate.
Result<TlsContext> load_tls(const TlsOptions& options);

}  // namespace quire::server
