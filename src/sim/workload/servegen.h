// ServeGen describes production workloads as clients, each with a rate and a burstiness per window
// of ten minutes and length histograms per window of six hours (Xiang et al., arXiv 2505.09999).
// read_servegen() draws new arrivals from them.
//
//   chunk-N-trace.csv      start [s], requests/s, coefficient of variation, Gamma or Weibull,
//                          shape, scale
//   chunk-N-dataset.json   {"start [s]": {"input_tokens": "{LENGTH: PROBABILITY, …}",
//                          "output_tokens": …}, …}
//
// Both files may be compressed (.gz).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/workload/workload.h"

namespace quire::sim {

struct ServeGenOptions {
  double begin_s = 0;  // start of the simulated part in the recording
  double duration_s = 3600;
  double rate_factor = 1;
  int64_t max_requests = int64_t{1} << 30;
  uint64_t seed = 0;
};

// A ServeGenClient holds the texts of one client's two files, with names for messages.
struct ServeGenClient {
  std::string trace_name, trace;
  std::string dataset_name, dataset;
};

Result<Workload> parse_servegen(const std::vector<ServeGenClient>& clients,
                                const ServeGenOptions& options);
// Reads all clients of a folder, by name.
Result<Workload> read_servegen(const std::string& folder, const ServeGenOptions& options);

}  // namespace quire::sim
