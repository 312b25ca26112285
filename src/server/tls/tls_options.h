// TlsOptions says whether and how a server encrypts its connections.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class ClientCertificates : uint8_t { kNone, kOptional, kRequired };

struct TlsOptions {
  std::string certificate_file;  // PEM, the server's own first, then those of its issuers
  std::string key_file;          // PEM, its private key
  // PEM, the authorities whose clients are accepted; for kOptional and kRequired.
  std::string client_ca_file;
  ClientCertificates client_certificates = ClientCertificates::kNone;

  // Returns whether connections are encrypted at all.
  bool any() const { return !certificate_file.empty() || !key_file.empty(); }
};

}  // namespace quire
