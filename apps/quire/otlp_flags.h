// These flags say where the serving verbs send spans and metrics.
#pragma once

#include <CLI/CLI.hpp>

#include "server/telemetry/exporter_options.h"

namespace quire::cli {

void add_otlp_flags(CLI::App& verb, server::ExporterOptions& otlp);

// Sets what no flag gave from the environment variables that OpenTelemetry defines for exporters.
void read_otlp_environment(server::ExporterOptions& otlp);

}  // namespace quire::cli
