#include "net/tls_trust.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdlib>

namespace quire::net {
namespace {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

// Distributions keep the authorities in these places. The OpenSSL of a program that was built on
// one distribution only knows the place of that one.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                    "/etc/ssl/cert.pem"};

// Loads what OpenSSL itself looks for, including the variables SSL_CERT_FILE and SSL_CERT_DIR. If
// OpenSSL's file does not exist, loads the first of the places above that exists.
void load_system_authorities(ssl::context& context) {
  ErrorCode ignored;
  context.set_default_verify_paths(ignored);
  if (std::getenv(X509_get_default_cert_file_env()) != nullptr) return;
  if (access(X509_get_default_cert_file(), R_OK) == 0) return;
  for (const char* const bundle : kBundles) {
    if (access(bundle, R_OK) != 0) continue;
    context.load_verify_file(bundle, ignored);
    return;
  }
}

}  // namespace

Result<TlsTrust> load_trust(const std::string& ca_file) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  ErrorCode error;
  context->set_verify_mode(ssl::verify_peer, error);
  if (ca_file.empty()) {
    load_system_authorities(*context);
    return context;
  }
  context->load_verify_file(ca_file, error);
  if (error)
    return invalid_argument("{}: expected certificates of authorities as PEM: {}", ca_file,
                            error.message());
  return context;
}

}  // namespace quire::net
