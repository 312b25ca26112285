#include "facade/step_costs.h"

#include <algorithm>
#include <memory>

#include "base/log.h"
#include "engine/observe/step_cost.h"
#include "engine/observe/step_files.h"
#include "facade/hardware/gpu_hardware.h"
#include "facade/hardware/machine_hardware.h"
#include "facade/model_shape_file.h"
#include "roofline/model/cost_model.h"

namespace quire {
namespace {

NumberFormat stored(DType dtype) {
  return {static_cast<double>(8 * size_bytes(dtype)),
          dtype == DType::kF32 ? MathType::kF32 : MathType::kBf16};
}

// Returns the format of keys and values, including what is kept beside them (the scales of int8).
NumberFormat stored(const KvLayout& kv) {
  return {8 * kv.bytes_per_element(), stored(kv.dtype).math};
}

MathType math_of(ComputeType compute) {
  switch (compute) {
    case ComputeType::kF32:
      return MathType::kF32;
    case ComputeType::kBF16:
      return MathType::kBf16;
    case ComputeType::kInt8:
      break;
  }
  return MathType::kInt8;
}

// Returns the number of weights of the routed experts of all layers.
double num_expert_weights(const ModelShape& shape) {
  double count = 0;
  for (const LayerGroup& group : shape.groups) {
    count += static_cast<double>(group.num_layers) * group.ffn.num_experts *
             group.ffn.num_expert_parameters(shape.hidden_size);
  }
  return count;
}

// Sets the formats of weights to the bytes that packed matrices really take: on average over the
// layers, over routed experts, and for the head. A step reads all of the first and the last, but
// few experts.
void set_packed_weights(const ModelPlan& plan, ModelShape& shape) {
  const MatrixBytes& bytes = plan.memory.matrices;
  const double head = static_cast<double>(shape.vocab_size * shape.hidden_size);
  const double experts = num_expert_weights(shape);
  const double dense = static_cast<double>(shape.num_decoder_parameters()) - experts -
                       (shape.tied_head ? 1 : 2) * head;
  const MathType math = math_of(plan.matrix_compute);
  const auto packed = [&](int64_t size, double count, MathType type, NumberFormat& format) {
    if (size == 0 || count <= 0) return;
    const double bits = 8 * static_cast<double>(size) / count;
    if (bits < 0.9 * format.bits) format = {bits, type};
  };
  packed(bytes.dense, dense, math, shape.weights);
  packed(bytes.experts, experts, math, shape.expert_weights);
  packed(bytes.head, head, math_of(plan.compute), shape.head_weights);
}

// Returns whether bringing blocks back from the host is faster than computing them, by the cost
// model and the link between host and device.
std::function<bool(int32_t, int32_t)> load_pays(std::shared_ptr<const CostModel> cost,
                                                double bytes_per_token) {
  const Link link = cost->hardware().host_link;
  if (link.bytes_per_s <= 0) return nullptr;
  return [=, shape = StepShape()](int32_t num_cached_tokens, int32_t num_tokens) mutable {
    shape.clear();
    shape.add(num_cached_tokens, num_tokens, false, cost->windows());
    const double load_us = link.latency_us + num_tokens * bytes_per_token / link.bytes_per_s * 1e6;
    return load_us < cost->predict_us(shape);
  };
}

// Returns null, with a warning in the log, for a model that the cost model cannot describe.
std::shared_ptr<const CostModel> cost_model_of(const ModelShape& shape, const Hardware& hardware,
                                               const EngineOptions& options) {
  Result<CostModel> cost = CostModel::create(
      shape, hardware, {},
      {.max_memoised_tokens = std::min(options.scheduler.max_num_batched_tokens, 8192)});
  if (cost.ok()) return std::make_shared<const CostModel>(std::move(*cost));
  log_warn("steps have no bound: {}", cost.status().message());
  return nullptr;
}

MachineProbeOptions machine_of(const EngineArgs& args) {
  return {.isa = args.isa, .num_threads = args.num_threads, .again = args.probe_again};
}

}  // namespace

ModelShape cost_shape(const std::string& name, const ModelPlan& plan) {
  const DecoderSpec& spec = plan.spec;
  ModelShape shape;
  shape.name = name;
  shape.hidden_size = spec.hidden_size;
  shape.vocab_size = spec.vocab_size;
  shape.max_model_len = plan.limits.max_seq_len;
  shape.tied_head = spec.tied_head;
  add_layer_shapes(spec, shape);
  if (plan.encoder) shape.source = source_shape(spec, *plan.encoder);
  if (plan.vision && !plan.vision->canvas.any()) shape.tower = tower_shape(*plan.vision);
  shape.weights = stored(plan.dtype);
  shape.weights.math = math_of(plan.matrix_compute);
  shape.head_weights = shape.expert_weights = shape.weights;
  shape.head_weights.math = math_of(plan.compute);
  shape.activations = stored(plan.limits.activation_type);  // between ops: bf16 on a GPU
  shape.kv = stored(plan.kv);
  set_packed_weights(plan, shape);
  return shape;
}

Result<StepHardware> step_hardware(const EngineArgs& args) {
  for (const std::string& path : {args.step_log, args.chrome_trace}) {
    if (!path.empty()) QUIRE_RETURN_IF_ERROR(check_step_file(path));
  }
  if (args.hardware == "none") return StepHardware();
  if (args.hardware == "auto" && args.device != "cpu") {
    Result<Hardware> gpu = gpu_hardware(args.probe_again);
    if (gpu.ok()) return StepHardware{std::move(*gpu)};
    // With --device auto the model will then run on the CPU.
    if (args.device == "cuda") return gpu.status();
  }
  const MachineProbeOptions machine = machine_of(args);
  // Files of steps need bounds from the first step on.
  const bool has_files = !args.step_log.empty() || !args.chrome_trace.empty();
  if (args.hardware == "auto" && args.probe_when_idle && !has_files) {
    std::optional<Hardware> kept = kept_hardware(machine);
    const bool is_kept = kept.has_value();
    return StepHardware{std::move(kept), !is_kept};
  }
  Result<Hardware> hardware = resolve_hardware(args.hardware, machine);
  if (args.hardware == "auto" && hardware.status().code() == StatusCode::kResourceExhausted) {
    log_warn("{}: bounds of steps are left out", hardware.status().message());
    return StepHardware();
  }
  QUIRE_RETURN_IF_ERROR(hardware.status());
  return StepHardware{std::move(*hardware)};
}

Status add_step_costs(const EngineArgs& args, const StepHardware& hardware, const std::string& name,
                      const ModelPlan& plan, EngineOptions& options) {
  StepLogHeader header{.model = cost_shape(name, plan), .hardware = args.hardware};
  if (hardware.hardware) {
    header.hardware = hardware.hardware->name;
    options.cost_model = cost_model_of(header.model, *hardware.hardware, options);
    if (options.cost_model != nullptr) {
      options.scheduler.step_time.predicted = step_time_table(*options.cost_model);
      options.kv.load_pays = load_pays(options.cost_model, plan.kv.bytes_per_token());
    }
  } else if (hardware.probe_when_idle) {
    QUIRE_ASSIGN_OR_RETURN(const Hardware generic, find_hardware(kGenericCpu));
    const auto cost = cost_model_of(header.model, generic, options);
    if (cost != nullptr) options.scheduler.step_time.predicted = step_time_table(*cost);
  }
  const StepTimeLimit& limit = options.scheduler.step_time;
  if (limit.max_step_us > 0 && limit.min_decode_steps == 0 && !limit.bounds()) {
    log_warn("--max-step-ms has no effect: nothing predicts steps here (see --hardware)");
  }
  if (!args.step_log.empty()) {
    QUIRE_ASSIGN_OR_RETURN(StepObserver observer, open_step_log(args.step_log, header));
    options.step_observers.push_back(std::move(observer));
  }
  if (!args.chrome_trace.empty()) {
    QUIRE_ASSIGN_OR_RETURN(StepObserver observer, open_chrome_trace(args.chrome_trace));
    options.step_observers.push_back(std::move(observer));
  }
  return {};
}

std::unique_ptr<IdleProbe> make_idle_probe(const EngineArgs& args, const StepHardware& hardware,
                                           const std::string& name, const ModelPlan& plan,
                                           std::shared_ptr<AsyncEngine> engine) {
  if (!hardware.probe_when_idle) return nullptr;
  const MachineProbeOptions machine = machine_of(args);
  return std::make_unique<IdleProbe>(
      std::move(engine),
      IdleProbeOptions{
          .probe = [machine] { return quick_probe(machine); },
          .keep = [machine](const QuickProbe& probe) { keep(probe, machine); },
          .cost_model =
              [shape = cost_shape(name, plan), options = args.engine](const Hardware& measured) {
                return cost_model_of(shape, measured, options);
              }});
}

}  // namespace quire
