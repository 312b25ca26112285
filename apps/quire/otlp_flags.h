// Where verbs that serve send spans and metrics.
#pragma once

#include <CLI/CLI.hpp>

#include "server/telemetry/exporter_options.h"

namespace quire::cli {

void add_otlp_flags(CLI::App& verb, server::ExporterOptions& otlp);

// Fills in what no flag says from the variables that OpenTelemetry names for all its exporters.
void read_otlp_environment(server::ExporterOptions& otlp);

}  // namespace quire::cli
