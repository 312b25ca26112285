// Which rank of how many this process is, as whoever launched it says in its environment: Open MPI,
// MPICH, LeaderWorkerSet, Slurm, torchrun.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "facade/engine_args.h"

namespace quire::cli {

// A function like std::getenv(): it returns null when there is no such variable.
using Variables = std::function<const char*(const char* name)>;

// nullopt: nobody launched several ranks. Variables that are also there where somebody works in an
// allocation or a training job count only when `asks` (external_launcher). kInvalidArgument: what
// they say contradicts itself, or not where the first rank is.
Result<std::optional<RankArgs>> launched_rank(const Variables& variables, bool asks);

// Completes args.ranks from the flags and the environment.
Status read_launcher(EngineArgs& args);

// Where this process is a rank behind the first: does that rank's work until the first one ends and
// returns the exit code. nullopt: it is the first, or alone.
std::optional<int> run_as_rank(EngineArgs& args);

}  // namespace quire::cli
