// What a user sees of a run: text, JSON, CSV, HTML. Deterministic: wall-clock facts are not in
// here.
#pragma once

#include <string>

#include "sim/fleet/fleet.h"
#include "sim/report/html_page.h"
#include "sim/report/summary.h"

namespace quire::sim {

// What the run was of, for headings: label and value.
using Description = LabelledValues;

std::string report_text(const Summary& summary, const Description& description);
// Keys of `bench serve` where the thing is the same, and more.
std::string report_json(const Summary& summary, const Description& description);
// One row per request, in the workload's order, after a line of names. Times in milliseconds.
std::string report_csv(const Workload& workload, const RunResult& result);
// One page that needs nothing else: figures, plots over time, distributions, where time went.
std::string report_html(const Summary& summary, const RunResult& result,
                        const Description& description);

}  // namespace quire::sim
