// What a server is told about encryption.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class ClientCertificates : uint8_t { kNone, kOptional, kRequired };

struct TlsOptions {
  std::string certificate_file;  // PEM, the server's own first, then those of its issuers
  std::string key_file;          // PEM, its private key
  // PEM, the authorities whose clients are let in; for kOptional and kRequired.
  std::string client_ca_file;
  ClientCertificates client_certificates = ClientCertificates::kNone;

  // Whether connections are encrypted at all.
  bool any() const { return !certificate_file.empty() || !key_file.empty(); }
};

}  // namespace quire
