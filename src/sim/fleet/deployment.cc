#include "sim/fleet/deployment.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/kv_grouping.h"
#include "draft/row_times.h"
#include "engine/observe/step_cost.h"
#include "sim/workload/token_content.h"

namespace quire::sim {

namespace {

// Adds the group of layers with states; its id follows those of the layers with attention.
void add_state_group(const ModelShape& model, double state_bytes, int32_t state_block_size,
                     int32_t first_layer, KvSpec& spec) {
  if (state_bytes <= 0) return;
  KvGroupSpec states{.kind = KvKind::kState, .sliding_window = 0, .layers = {}};
  for (const LayerGroup& group : model.groups) {
    for (int32_t i = 0; group.state.any() && i < group.num_layers; ++i) {
      states.layers.push_back(first_layer++);
    }
  }
  spec.groups.push_back(std::move(states));
  spec.state = {.block_size = state_block_size,
                .block_bytes = std::max<int64_t>(1, std::llround(state_bytes))};
}

}  // namespace

KvSpec kv_spec_of(const ModelShape& model, const MemoryEstimate& memory, int32_t block_size,
                  int32_t state_block_size) {
  std::vector<KvLayerKind> layers;
  double elements = 0;  // per token, over all layers
  for (const LayerGroup& group : model.groups) {
    const double layer_elements = group.attention.kv_elements_per_token();
    if (layer_elements <= 0) continue;
    elements += group.num_layers * layer_elements;
    const KvLayerKind kind{group.attention.sliding_window,
                           std::max<int64_t>(1, std::llround(layer_elements))};
    layers.insert(layers.end(), static_cast<size_t>(group.num_layers), kind);
  }
  KvSpec spec{.block_size = block_size, .groups = {}};
  if (!layers.empty()) {
    KvGrouping grouping = group_layers(layers);
    const double share = static_cast<double>(grouping.block_bytes) / std::max(elements, 1.0);
    spec.groups = std::move(grouping.groups);
    spec.block_bytes =
        std::max<int64_t>(1, std::llround(memory.kv_bytes_per_token * share * block_size));
  }
  add_state_group(model, memory.state_bytes_per_sequence, state_block_size,
                  static_cast<int32_t>(layers.size()), spec);
  return spec;
}

namespace {

// States cannot be moved, neither here nor in the engine (engine/kv_plan.h).
Status check_states(const PoolOptions& options) {
  if (options.model.state_bytes_per_sequence() <= 0) return {};
  if (options.state_block_size < 1 || options.state_block_size % options.block_size != 0) {
    return invalid_argument(
        "tokens between snapshots of states: expected a multiple of the block size {}, got {}",
        options.block_size, options.state_block_size);
  }
  if (options.offload_bytes > 0 || options.role != Role::kBoth) {
    return invalid_argument(
        "{}: expected neither host memory for KV nor replicas for prompts alone, because the "
        "layers keep states, which stay in a device's memory",
        options.model.name);
  }
  return {};
}

// Returns the predicted times of steps by their number of rows, each with one token. An engine
// measures them.
enum class HostTime { kCounted, kLeftOut };
RowTimes row_times(const CostModel& model, HostTime host = HostTime::kCounted) {
  std::vector<RowTimes::Point> points;
  StepShape shape;
  for (int32_t num_rows = 1; num_rows <= 4096; num_rows += std::max(1, num_rows / 4)) {
    shape.clear();
    shape.add(0, num_rows, true, model.windows());
    shape.num_sampled = num_rows;
    const StepCost step = model.predict(shape);
    points.push_back({num_rows, step.total_us - (host == HostTime::kLeftOut ? step.host_us : 0)});
  }
  Result<RowTimes> times = RowTimes::create(std::move(points));
  return times.ok() ? std::move(*times) : RowTimes();
}

Status check_drafts(const PoolOptions& options) {
  const int32_t num_drafts = options.engine.scheduler.num_speculative_tokens;
  if (num_drafts == 0) return {};
  if (options.draft_model && options.draft_model->state_bytes_per_sequence() > 0) {
    return invalid_argument("{}: expected a model without states for one that drafts",
                            options.draft_model->name);
  }
  if (num_drafts < 0 || !(options.draft_acceptance >= 0 && options.draft_acceptance <= 1)) {
    return invalid_argument(
        "speculation: expected drafts of which a share in [0, 1] comes out, got {} and {}",
        num_drafts, options.draft_acceptance);
  }
  if (options.model.state_bytes_per_sequence() > 0 || options.role != Role::kBoth ||
      options.parallelism.pp > 1) {
    return invalid_argument(
        "speculation: expected a model without states, replicas for prompts and outputs, and one "
        "pipeline stage");
  }
  return {};
}

}  // namespace

namespace {

// Subtracts the memory that the adapters of a step take on the devices from that of the KV cache.
void add_adapters(const PoolOptions& options, ReplicaSpec& replica) {
  replica.adapters =
      adapter_times(options.model, options.hardware, options.parallelism, options.lora_rank);
  const int32_t most = std::max(1, options.engine.scheduler.max_loras);
  replica.kv_bytes -= std::llround(replica.adapters.bytes * most);
}

// Subtracts the weights of the drafting model from the memory of the KV cache, and adds its KV to
// each block.
Status add_draft_model(const PoolOptions& options, const MemoryEstimate& memory,
                       ReplicaSpec& replica) {
  const ModelShape& model = *options.draft_model;
  Parallelism parallelism{.tp = options.parallelism.tp};
  if (!parallelism.validate(model).ok()) parallelism = {};
  QUIRE_ASSIGN_OR_RETURN(const MemoryEstimate drafting,
                         estimate_memory(model, options.hardware, parallelism,
                                         {.block_size = options.block_size,
                                          .utilisation = options.memory_utilisation}));
  replica.kv_bytes -= std::llround(drafting.weight_bytes);
  if (replica.kv_bytes <= 0) {
    return resource_exhausted(
        "{}: its weights take {:.2f} GB of each device, and {:.2f} GB are left beside {}",
        model.name, drafting.weight_bytes * 1e-9, memory.kv_bytes * 1e-9, options.model.name);
  }
  const double kv_share = drafting.kv_bytes_per_token / std::max(memory.kv_bytes_per_token, 1.0);
  replica.kv_spec.block_bytes =
      std::llround(static_cast<double>(replica.kv_spec.block_bytes) * (1 + kv_share));
  QUIRE_ASSIGN_OR_RETURN(CostModel cost, CostModel::create(model, options.hardware, parallelism,
                                                           options.cost, options.tables));
  replica.drafting.step_times = row_times(cost, HostTime::kLeftOut);
  replica.drafting.timer =
      std::make_shared<CostModelTimer>(std::make_shared<const CostModel>(std::move(cost)));
  return {};
}

// Sets the size of the cache of picture embeddings as the engine does.
EngineOptions engine_of(const PoolOptions& options) {
  EngineOptions engine = options.engine;
  engine.log_interval_us = 0;
  const TowerShape& tower = options.model.tower;
  if (!tower.any()) return engine;
  SchedulerConfig& scheduler = engine.scheduler;
  scheduler.encoder_cache_tokens = std::max(scheduler.max_num_batched_tokens, tower.max_embeddings);
  scheduler.media_is_bidirectional = tower.is_bidirectional;
  return engine;
}

Status check_adapters(const PoolOptions& options) {
  if (options.lora_rank == 0) return {};
  if (options.offload_bytes > 0 || options.role != Role::kBoth) {
    return invalid_argument(
        "adapters: expected neither host memory for KV nor replicas for prompts alone, whose KV is "
        "known by its tokens");
  }
  return {};
}

}  // namespace

Result<PoolSpec> make_pool(const PoolOptions& options) {
  QUIRE_RETURN_IF_ERROR(options.parallelism.validate(options.model));
  QUIRE_RETURN_IF_ERROR(check_states(options));
  QUIRE_RETURN_IF_ERROR(check_drafts(options));
  QUIRE_RETURN_IF_ERROR(check_adapters(options));
  const int32_t max_tokens = options.engine.scheduler.max_num_batched_tokens;
  QUIRE_ASSIGN_OR_RETURN(const MemoryEstimate memory,
                         estimate_memory(options.model, options.hardware, options.parallelism,
                                         {.block_size = options.block_size,
                                          .utilisation = options.memory_utilisation,
                                          .max_num_batched_tokens = max_tokens,
                                          .max_num_seqs = options.engine.scheduler.max_num_seqs,
                                          .server = options.memory}));
  QUIRE_ASSIGN_OR_RETURN(CostModel cost,
                         CostModel::create(options.model, options.hardware, options.parallelism,
                                           options.cost, options.tables));
  // Each data parallel rank is an engine of its own; in the cost model they share the experts.
  const int32_t num_ranks = options.parallelism.dp;
  const int32_t num_devices = options.parallelism.num_devices() / num_ranks;
  PoolSpec pool{.name = options.name,
                .role = options.role,
                .num_replicas = options.num_replicas * num_ranks,
                .devices_per_replica = num_devices,
                .fidelity = std::string(to_string(options.cost.fidelity)),
                .price_per_device_hour = options.hardware.price_per_hour,
                .watts_per_device = options.hardware.watts,
                .autoscale = options.autoscale};
  ReplicaSpec& replica = pool.replica;
  replica.engine = engine_of(options);
  replica.model = {.vocab_size = kVocabSize,
                   .max_model_len = static_cast<int32_t>(
                       std::min<int64_t>(options.model.max_model_len, int64_t{1} << 28))};
  replica.kv_spec = kv_spec_of(options.model, memory, options.block_size, options.state_block_size);
  replica.kv_bytes = static_cast<int64_t>(memory.kv_bytes);
  replica.kv_bytes_per_token = options.model.kv_bytes_per_token();
  replica.pipeline_depth = options.parallelism.pp;
  replica.engine.scheduler.pipeline_depth = options.parallelism.pp;
  replica.engine.scheduler.async_scheduling &= !options.hardware.cpu && options.parallelism.pp == 1;
  replica.fast_forward = options.fast_forward;
  if (options.offload_bytes > 0 && replica.kv_bytes_per_token > 0) {
    const Link& link = options.hardware.host_link;
    replica.tier = {
        .capacity_tokens = static_cast<int64_t>(options.offload_bytes / replica.kv_bytes_per_token),
        .bytes_per_s = link.bytes_per_s > 0 ? link.bytes_per_s * num_devices : 50e9,
        .latency_ns = std::llround(link.latency_us * 1e3)};
  }
  replica.engine.scheduler.step_time.predicted = step_time_table(cost);
  if (options.lora_rank > 0) add_adapters(options, replica);
  replica.draft_acceptance = options.draft_acceptance;
  if (replica.engine.scheduler.num_speculative_tokens > 0) {
    // As in the engine, drafts allow only one step in flight.
    replica.engine.scheduler.async_scheduling = false;
    replica.engine.scheduler.draft_planner.row_times = row_times(cost);
    if (options.draft_model) QUIRE_RETURN_IF_ERROR(add_draft_model(options, memory, replica));
  }
  replica.timer =
      std::make_shared<CostModelTimer>(std::make_shared<const CostModel>(std::move(cost)));
  return pool;
}

}  // namespace quire::sim
