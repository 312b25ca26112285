#include "quire/otlp_flags.h"

#include <cstdlib>
#include <string>

#include "quire/flag_checks.h"

namespace quire::cli {

void add_otlp_flags(CLI::App& verb, server::ExporterOptions& otlp) {
  constexpr const char* kGroup = "Telemetry";
  verb.add_option("--otlp-traces-endpoint", otlp.traces_endpoint,
                  "Send a trace span of each request to this collector by OTLP over HTTP, for "
                  "example http://127.0.0.1:4318/v1/traces (docs/telemetry.md)")
      ->type_name("URL")
      ->group(kGroup);
  verb.add_option("--otlp-metrics-endpoint", otlp.metrics_endpoint,
                  "Send the metrics of /metrics to this URL in the same way, for example "
                  "http://127.0.0.1:4318/v1/metrics")
      ->type_name("URL")
      ->group(kGroup);
  verb.add_option("--otlp-metrics-interval-ms", otlp.metrics_interval_ms,
                  "Interval in milliseconds between two transfers of metrics")
      ->check(at_least(100))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--otlp-service-name", otlp.service_name,
                  "Name of this server in traces and metrics (the attribute service.name)")
      ->check(not_empty())
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--otlp-ca-file", otlp.ca_file,
                  "PEM file with the authorities that sign the certificates of https endpoints "
                  "(default: $OTEL_EXPORTER_OTLP_CERTIFICATE, else the system's)")
      ->type_name("PATH")
      ->group(kGroup);
  verb.add_option("--otlp-headers", otlp.headers,
                  "Headers of every request to the collector, as NAME=VALUE,NAME=VALUE with %XX "
                  "for special characters (default: $OTEL_EXPORTER_OTLP_HEADERS)")
      ->type_name("TEXT")
      ->group(kGroup);
}

void read_otlp_environment(server::ExporterOptions& otlp) {
  const auto read = [](const char* name, std::string& value) {
    const char* const given = std::getenv(name);
    if (value.empty() && given != nullptr) value = given;
  };
  read("OTEL_EXPORTER_OTLP_CERTIFICATE", otlp.ca_file);
  read("OTEL_EXPORTER_OTLP_HEADERS", otlp.headers);
}

}  // namespace quire::cli
