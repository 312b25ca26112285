// These functions report a run to users as text, JSON, CSV or HTML. Reports are deterministic,
// because they contain no wall-clock times.
#pragma once

#include <string>

#include "sim/fleet/fleet.h"
#include "sim/report/html_page.h"
#include "sim/report/summary.h"

namespace quire::sim {

// A Description lists labels and values that say what was run, for headings.
using Description = LabelledValues;

std::string report_text(const Summary& summary, const Description& description);
// Returns JSON. Figures that `bench serve` reports too have the same keys.
std::string report_json(const Summary& summary, const Description& description);
// Returns a line of column names and one row per request, in the workload's order. Times are in
// milliseconds.
std::string report_csv(const Workload& workload, const RunResult& result);
// Returns a page that needs no other file: figures, plots over time, distributions, what time was
// spent on.
std::string report_html(const Summary& summary, const RunResult& result,
                        const Description& description);

}  // namespace quire::sim
