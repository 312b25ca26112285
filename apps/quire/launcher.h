// These functions read this process's rank and the number of ranks from the environment variables
// of its launcher: Open MPI, MPICH, LeaderWorkerSet, Slurm or torchrun.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "facade/engine_args.h"

namespace quire::cli {

// Works as std::getenv() does: it returns null when there is no such variable.
using Variables = std::function<const char*(const char* name)>;

// Returns nullopt when no launcher started several ranks. Slurm's and torchrun's variables are also
// set inside an allocation or a training job, so they only count when `asks` is true
// (--distributed-executor-backend external_launcher). kInvalidArgument: the variables contradict
// each other, or `asks` is true and no launcher is found.
Result<std::optional<RankArgs>> launched_rank(const Variables& variables, bool asks);

// Completes args.ranks from the flags and the environment.
Status read_launcher(EngineArgs& args);

// In a process whose rank is above 0, does that rank's work until rank 0 ends, and returns the exit
// code. nullopt: this process is rank 0, or the only one.
std::optional<int> run_as_rank(EngineArgs& args);

}  // namespace quire::cli
