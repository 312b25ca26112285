// These flags are shared by all verbs that run a model. Names and meanings follow `vllm serve`
// where the thing is the same.
#pragma once

#include <CLI/CLI.hpp>

#include "core/sampling_params.h"
#include "facade/engine_args.h"

namespace quire::cli {

// Adds the optional positional MODEL.
void add_model_argument(CLI::App& verb, EngineArgs& args);
void add_chat_template_flag(CLI::App& verb, EngineArgs& args);
// Adds flags for types, threads, memory, scheduling and caching.
void add_engine_flags(CLI::App& verb, EngineArgs& args);

// Adds the scheduler's part of the flags, which the simulator's verbs take too. `device` points to
// the value of --device, which is read when the command line is parsed, because a GPU has other
// defaults. Null stands for a CPU.
void add_scheduler_flags(CLI::App& verb, SchedulerConfig& config, const std::string* device);

// SamplingFlags are the sampling flags of chat and generate. Only flags that are given change
// `params`.
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

// Returns the text that a flag gives: the flag's value itself, or the content of the file that it
// names.
Result<std::string> text_or_file(const std::string& given);

// Adds --progress, which the benchmarks take.
void add_progress_flag(CLI::App& verb, bool& always);

// A ProgressBar shows on standard error how much of the work is done, when that is a terminal.
// Elsewhere the function is empty, or with `always` it prints a line for every tenth of the work.
using ProgressBar = std::function<void(int64_t done, int64_t total)>;
ProgressBar progress_bar(std::string_view label, bool always = false);
inline ProgressBar loading_bar(std::string_view label = "loading") { return progress_bar(label); }

}  // namespace quire::cli
