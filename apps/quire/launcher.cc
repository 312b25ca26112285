#include "quire/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "base/text_fields.h"
#include "facade/model_bundle.h"
#include "quire/commands.h"

namespace quire::cli {
namespace {

// This exit code means, as it does for `quire serve`, that there is nothing left to work with.
constexpr int kExitRankLost = 3;

// The environment variables of one launcher. An empty name means that this launcher sets no such
// variable.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* num_on_host;
  const char* address;
  const char* port;
  bool is_asked_for;
};

constexpr Launcher kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "",
     "", false},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "", "", false},
    {"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "", "LWS_LEADER_ADDRESS", "", false},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", true},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_STEP_NODELIST", "", true},
};

// Returns the number at the beginning of a text: Slurm writes "2(x3)" for two on each of three
// hosts.
std::optional<int> leading_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int number = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  if (error != std::errc() || end == view.data()) return std::nullopt;
  return number;
}

// Returns the first host of a list in Slurm's notation, such as "a", "a,b" or "node[03-07,9],x".
std::string first_host(std::string_view list) {
  const size_t bracket = list.find_first_of("[,");
  if (bracket == list.npos || list[bracket] == ',') return std::string(list.substr(0, bracket));
  const std::string_view numbers = list.substr(bracket + 1);
  return std::string(list.substr(0, bracket)) +
         std::string(numbers.substr(0, numbers.find_first_of("-,]")));
}

Result<RankArgs> read(const Launcher& launcher, const Variables& variables, int size) {
  const auto rank = leading_number(variables(launcher.rank));
  if (!rank || *rank < 0 || *rank >= size) {
    const char* const text = variables(launcher.rank);
    return invalid_argument("{}: expected a rank below {}={} in {}, got {}", launcher.name,
                            launcher.size, size, launcher.rank, text == nullptr ? "nothing" : text);
  }
  RankArgs ranks{.rank = *rank, .size = size};
  if (const auto count = leading_number(variables(launcher.num_on_host)))
    ranks.num_on_host = std::clamp(*count, 1, size);
  if (const char* const address = variables(launcher.address)) ranks.address = first_host(address);
  if (const char* const port = variables(launcher.port)) {
    QUIRE_ASSIGN_OR_RETURN(
        const int64_t number,
        parse_integer(port, 1, 65'535, fmt::format("{}: {}", launcher.name, launcher.port)));
    ranks.port = static_cast<uint16_t>(number);
  }
  if (ranks.address.empty() && ranks.num_on_host == size) ranks.address = "127.0.0.1";
  return ranks;
}

}  // namespace

Result<std::optional<RankArgs>> launched_rank(const Variables& variables, bool asks) {
  for (const Launcher& launcher : kLaunchers) {
    const auto size = leading_number(variables(launcher.size));
    if (!size || *size < 2 || (launcher.is_asked_for && !asks)) continue;
    QUIRE_ASSIGN_OR_RETURN(const RankArgs ranks, read(launcher, variables, *size));
    return std::optional(ranks);
  }
  if (!asks) return std::optional<RankArgs>();
  return invalid_argument(
      "--distributed-executor-backend external_launcher: expected the variables of mpirun, srun, "
      "torchrun or LeaderWorkerSet, found no variables that name more than one rank");
}

Status read_launcher(EngineArgs& args) {
  const bool asks = args.distributed_executor_backend == "external_launcher";
  RankArgs& ranks = args.ranks;
  if (ranks.size == 1 || asks) {
    const auto variables = [](const char* name) {
      return *name == '\0' ? nullptr : std::getenv(name);
    };
    QUIRE_ASSIGN_OR_RETURN(const std::optional<RankArgs> launched, launched_rank(variables, asks));
    if (!launched) return {};
    const RankArgs flags = ranks;
    ranks = *launched;
    if (!flags.address.empty()) ranks.address = flags.address;
    if (flags.port != RankArgs().port) ranks.port = flags.port;
  }
  if (ranks.rank < 0 || ranks.rank >= ranks.size) {
    return invalid_argument("--node-rank: expected a number below --nnodes ({}), got {}",
                            ranks.size, ranks.rank);
  }
  if (ranks.address.empty()) {
    return invalid_argument(
        "--master-addr: expected the host of rank 0, to which the other ranks of {} connect; got "
        "nothing",
        ranks.size);
  }
  const int32_t stages = args.pipeline_parallel_size, ranks_each = args.tensor_parallel_size;
  if (ranks_each != 1 && ranks_each * stages != ranks.size) {
    return invalid_argument(
        "--tensor-parallel-size: expected {} processes divided by {} stages, got {}", ranks.size,
        stages, ranks_each);
  }
  args.tensor_parallel_size = 1;
  return {};
}

std::optional<int> run_as_rank(EngineArgs& args) {
  Status status = read_launcher(args);
  if (!status.ok()) return report(status);
  if (args.ranks.rank == 0) return std::nullopt;
  set_log_level(LogLevel::kInfo);
  // A launcher sends its signals to every rank. The first rank finishes what runs and then tells
  // the other ranks, so these wait; a second signal ends them at once.
  sigset_t stop{};
  sigemptyset(&stop);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&stop, signal);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  std::thread([stop] {
    int signal = 0;
    sigwait(&stop, &signal);
    log_info("{}: waiting for the first rank to end", strsignal(signal));  // NOLINT
    sigwait(&stop, &signal);
    _exit(128 + signal);
  }).detach();
  status = serve_rank(args);
  if (status.ok()) return 0;
  const int exit_code = report(status);
  return status.code() == StatusCode::kUnavailable ? kExitRankLost : exit_code;
}

}  // namespace quire::cli
