#include "facade/parallel_args.h"

#include <algorithm>
#include <utility>

#include "base/threads/thread_share.h"
#include "facade/parallel/eplb_config.h"

namespace quire {

Status check_parallel(const EngineArgs& args) {
  const int32_t engines = args.data_parallel_size, stages = args.pipeline_parallel_size;
  if (args.ranks.size > 1 && args.ranks.size % stages != 0) {
    return invalid_argument(
        "--pipeline-parallel-size: expected a number that divides the {} processes, got {}",
        args.ranks.size, stages);
  }
  if (engines > 1 && args.ranks.size > 1) {
    return invalid_argument(
        "--data-parallel-size: expected 1 where ranks are processes, got {}; start as many groups "
        "of ranks and put quire route before them",
        engines);
  }
  if (engines > 1 && args.pin_threads) {
    return invalid_argument(
        "--pin-threads: expected none with --data-parallel-size {}, whose engines would be pinned "
        "to the same cores",
        engines);
  }
  if (engines > 1 && !args.kv_events_config.empty()) {
    return unimplemented(
        "--kv-events-config: expected none with --data-parallel-size {}, whose engines would "
        "publish at one address",
        engines);
  }
  return {};
}

int32_t ranks_per_stage(const EngineArgs& args) {
  return args.ranks.size > 1 ? args.ranks.size / args.pipeline_parallel_size
                             : args.tensor_parallel_size;
}

Status set_expert_options(const EngineArgs& args, ModelRunnerOptions& options) {
  options.share.whole_experts = args.enable_expert_parallel;
  if (args.all2all_backend == "allgather_reducescatter") {
    options.share.combine = ExpertCombine::kAllGather;
  } else if (args.all2all_backend != "auto") {
    options.share.combine = ExpertCombine::kAllToAll;
  }
  if (!args.enable_eplb) {
    if (args.eplb_config.empty()) return {};
    return invalid_argument("--eplb-config: expected --enable-eplb too");
  }
  QUIRE_ASSIGN_OR_RETURN(const EplbConfig config, parse_eplb_config(args.eplb_config));
  options.expert_balance = config.balance;
  options.share.num_redundant_experts = config.num_redundant_experts;
  return {};
}

int32_t threads_per_engine(const EngineArgs& args) {
  if (args.data_parallel_size == 1) return args.num_threads;
  return share_of_threads(args.num_threads, args.data_parallel_size);
}

EngineArgs run_by_one(EngineArgs args) {
  args.tensor_parallel_size = args.pipeline_parallel_size = args.data_parallel_size = 1;
  args.ranks = {};
  args.devices.clear();
  return args;
}

}  // namespace quire
