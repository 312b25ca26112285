#include "quire/serving_process.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/log_format.h"
#include "quire/flag_checks.h"

namespace quire::cli {

sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    log_warn("cannot raise the limit of open files; fewer connections may be possible");
}

void add_tls_flags(CLI::App& verb, TlsOptions& tls, const std::string& group) {
  verb.add_option("--ssl-certfile", tls.certificate_file,
                  "Serve https: PEM file with the certificate and those of its issuers; it is read "
                  "again at SIGHUP")
      ->type_name("PATH")
      ->group(group);
  verb.add_option("--ssl-keyfile", tls.key_file, "PEM file with the certificate's private key")
      ->type_name("PATH")
      ->group(group);
  verb.add_option("--ssl-ca-certs", tls.client_ca_file,
                  "PEM file with the authorities whose client certificates are accepted")
      ->type_name("PATH")
      ->group(group);
  verb.add_option_function<int32_t>(
          "--ssl-cert-reqs",
          [&tls](int32_t level) {
            tls.client_certificates = static_cast<ClientCertificates>(level);
          },
          "Certificates of clients: 0 not asked for, 1 checked if the client sends one, 2 required "
          "(default: 0)")
      ->check(in_range(0, 2))
      ->group(group);
}

void add_log_flag(CLI::App& verb, const std::string& group) {
  verb.add_option_function<std::string>(
          "--log-format",
          [](const std::string& name) {
            set_log_format(name == "json" ? LogFormat::kJson : LogFormat::kText);
          },
          "Format of the log: text, or json with one object per line (default: text)")
      ->check(one_of({"text", "json"}))
      ->group(group);
}

std::string url_of(const std::string& host, uint16_t port, const TlsOptions& tls) {
  const bool bare_ipv6 = host.find(':') != host.npos && !host.starts_with('[');
  const char* const scheme = tls.any() ? "https" : "http";
  return bare_ipv6 ? fmt::format("{}://[{}]:{}", scheme, host, port)
                   : fmt::format("{}://{}:{}", scheme, host, port);
}

}  // namespace quire::cli
