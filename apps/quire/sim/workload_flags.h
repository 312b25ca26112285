// These flags describe a workload: a synthetic one, or a trace.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/workload/workload.h"

namespace quire::cli {

struct WorkloadFlags {
  std::string trace, trace_format;
  double rate_scale = 1;
  double trace_start_s = 0;
  int64_t num_requests = 0;  // 0: 1000, or all requests of a trace
  std::optional<double> duration_s;
  std::string rate = "1";
  std::string arrivals = "poisson";
  std::string input_len = "1024", output_len = "128";
  int32_t prefix_len = 0, num_prefixes = 1;
  std::string turns = "1";
  double think_s = 0;
  int32_t num_prompts = 0;
  int32_t concurrency = 0;
  int32_t num_loras = 0;
  double lora_skew = 1;
  int32_t images_per_request = 0;
  double image_share = 1;
  std::string image_size = "1024x1024";
  double length_jitter_percent = 0;
  std::optional<double> client_jitter_ms;
  std::string save_trace;
};

void add_workload_flags(CLI::App& verb, WorkloadFlags& flags);
// Makes the workload that the flags describe. `model` names the model that reads the images, if
// there are any.
Result<sim::Workload> workload_of(const WorkloadFlags& flags, const std::string& model,
                                  uint64_t seed, int32_t max_model_len);
// Reads "WIDTHxHEIGHT", the size of an image in pixels, and refuses one that is too large. The
// error begins with `flag`.
struct PictureSize {
  int32_t width = 0;
  int32_t height = 0;
};
Result<PictureSize> parse_picture_size(const std::string& text, const std::string& flag);

}  // namespace quire::cli
