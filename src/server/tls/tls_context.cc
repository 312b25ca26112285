#include "server/tls/tls_context.h"

#include <openssl/ssl.h>

#include <string_view>

namespace quire::server {
namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

// Clients that ask for HTTP/2 first are answered with HTTP/1.1.
int choose_http_1_1(SSL* /*session*/, const unsigned char** out, unsigned char* out_length,
                    const unsigned char* offered, unsigned offered_length, void* /*context*/) {
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, out_length, kProtocols, sizeof kProtocols - 1,
                                          offered, offered_length);
  if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Status check(const TlsOptions& options) {
  if (options.certificate_file.empty())
    return invalid_argument("--ssl-certfile: expected a file beside --ssl-keyfile");
  if (options.key_file.empty())
    return invalid_argument("--ssl-keyfile: expected a file beside --ssl-certfile");
  const bool asks = options.client_certificates != ClientCertificates::kNone;
  if (asks && options.client_ca_file.empty())
    return invalid_argument("--ssl-ca-certs: expected a file, since --ssl-cert-reqs asks clients");
  if (!asks && !options.client_ca_file.empty())
    return invalid_argument("--ssl-ca-certs: expected --ssl-cert-reqs 1 or 2 beside it, got 0");
  return {};
}

Status file_status(const ErrorCode& error, const char* flag, const std::string& path,
                   std::string_view what) {
  if (!error) return {};
  return invalid_argument("{} {}: expected {} as PEM: {}", flag, path, what, error.message());
}

Status ask_clients(ssl::context& context, const TlsOptions& options) {
  if (options.client_certificates == ClientCertificates::kNone) return {};
  ErrorCode error;
  context.load_verify_file(options.client_ca_file, error);
  QUIRE_RETURN_IF_ERROR(
      file_status(error, "--ssl-ca-certs", options.client_ca_file, "certificates of authorities"));
  const bool required = options.client_certificates == ClientCertificates::kRequired;
  context.set_verify_mode(ssl::verify_peer | (required ? ssl::verify_fail_if_no_peer_cert : 0),
                          error);
  // Resumed sessions would need a session id context.
  SSL_CTX_set_session_cache_mode(context.native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_TICKET);
  return {};
}

}  // namespace

Result<TlsContext> load_tls(const TlsOptions& options) {
  if (!options.any() && options.client_ca_file.empty()) return TlsContext();
  QUIRE_RETURN_IF_ERROR(check(options));
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_alpn_select_cb(context->native_handle(), choose_http_1_1, nullptr);
  // A key with a password is refused; no terminal is asked for it.
  ErrorCode error;
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return ""; }, error);
  context->use_certificate_chain_file(options.certificate_file, error);
  QUIRE_RETURN_IF_ERROR(
      file_status(error, "--ssl-certfile", options.certificate_file, "certificates"));
  context->use_private_key_file(options.key_file, ssl::context::pem, error);
  QUIRE_RETURN_IF_ERROR(file_status(error, "--ssl-keyfile", options.key_file,
                                    "the certificate's private key, without a password,"));
  QUIRE_RETURN_IF_ERROR(ask_clients(*context, options));
  return context;
}

}  // namespace quire::server
