// Flags that every verb which runs a model shares. Names and meanings follow `vllm serve` where the
// thing is the same.
#pragma once

#include <CLI/CLI.hpp>

#include "core/sampling_params.h"
#include "facade/engine_args.h"

namespace quire::cli {

// The optional positional MODEL.
void add_model_argument(CLI::App& verb, EngineArgs& args);
void add_chat_template_flag(CLI::App& verb, EngineArgs& args);
// dtype, threads, memory, scheduling, caching.
void add_engine_flags(CLI::App& verb, EngineArgs& args);

// The scheduler's part of them; the simulator's verbs take it too.
void add_scheduler_flags(CLI::App& verb, SchedulerConfig& config);

// Sampling flags of chat and generate; only those that were given change `params`.
class SamplingFlags {
 public:
  explicit SamplingFlags(CLI::App& verb);
  SamplingParams apply(SamplingParams params) const;

 private:
  std::optional<int32_t> max_tokens_, top_k_;
  std::optional<float> temperature_, top_p_, min_p_, repetition_penalty_;
  std::optional<uint64_t> seed_;
  std::vector<std::string> stop_;
};

// --progress of the benchmarks.
void add_progress_flag(CLI::App& verb, bool& always);

// Shows how much of a work is done, on standard error when that is a terminal; nullptr elsewhere,
// unless `always`: then a line per tenth.
using ProgressBar = std::function<void(int64_t done, int64_t total)>;
ProgressBar progress_bar(std::string_view label, bool always = false);
inline ProgressBar loading_bar(std::string_view label = "loading") { return progress_bar(label); }

}  // namespace quire::cli
