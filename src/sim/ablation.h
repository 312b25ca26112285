// An ablation runs one workload in the ways that servers once used and in Quire's. It compares
// batches that no request joins or leaves with batches that change at every step, and KV reserved
// in one piece for the longest sequence with KV in blocks. The engine's own scheduler and KV
// manager have all four modes (BatchingMode, KvReservation), so nothing else differs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/books/kv_options.h"
#include "sched/scheduler_config.h"
#include "sim/fleet/fleet.h"
#include "sim/report/report.h"
#include "sim/report/summary.h"

namespace quire::sim {

struct ServingMode {
  const char* name;
  BatchingMode batching;
  KvReservation reservation;
};

// Returns the four modes, the oldest first.
std::span<const ServingMode> serving_modes();

struct ModeRun {
  const ServingMode* mode = nullptr;
  RunResult result;
  Summary summary;
};

// Runs the workload in every mode. Prefix caching is off, because reserved KV does not support it.
Result<std::vector<ModeRun>> run_modes(const Workload& workload, const FleetSpec& spec,
                                       const SloLimits& limits);

std::string ablation_text(std::span<const ModeRun> runs, const Description& description);
std::string ablation_json(std::span<const ModeRun> runs);
// Returns a page that needs no other file: it compares the modes side by side, and over time.
std::string ablation_html(std::span<const ModeRun> runs, const Description& description);

}  // namespace quire::sim
