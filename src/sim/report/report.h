// A user sees this of a run: text, JSON, CSV, HTML. Reports are deterministic, because wall-clock
// facts are not in them.
#pragma once

#include <string>

#include "sim/fleet/fleet.h"
#include "sim/report/html_page.h"
#include "sim/report/summary.h"

namespace quire::sim {

// A Description says in labels and values what the run was of, for headings.
using Description = LabelledValues;

std::string report_text(const Summary& summary, const Description& description);
// The keys are those of `bench serve` where the thing is the same, and more.
std::string report_json(const Summary& summary, const Description& description);
// There is one row per request, in the workload's order, after a line of names. Times are in
// milliseconds.
std::string report_csv(const Workload& workload, const RunResult& result);
// The page needs no other file: figures, plots over time, distributions, where time went.
std::string report_html(const Summary& summary, const RunResult& result,
                        const Description& description);

}  // namespace quire::sim
