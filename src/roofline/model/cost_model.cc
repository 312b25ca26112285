#include "roofline/model/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "roofline/model/cost_model_impl.h"
#include "roofline/model/source_kernels.h"
#include "roofline/shape/pipeline_layers.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, kNumKernels> kKernelNames = {
    "embedding",        "qkv_projection",    "prefill_attention",
    "decode_attention", "state_scan",        "cross_attention",
    "encoder",          "output_projection", "mlp",
    "router",           "experts",           "elementwise",
    "lm_head",          "sampling",          "all_reduce",
    "all_to_all",       "pipeline_hop",      "host"};
constexpr std::array<std::string_view, kNumTerms> kTermNames = {
    "weights", "kv", "activations", "compute", "network", "launch", "host"};

}  // namespace

std::string_view to_string(Kernel kernel) { return kKernelNames[static_cast<size_t>(kernel)]; }
std::string_view to_string(Term term) { return kTermNames[static_cast<size_t>(term)]; }

std::string_view to_string(Fidelity fidelity) {
  switch (fidelity) {
    case Fidelity::kBound:
      return "bound";
    case Fidelity::kAnalytic:
      return "analytic";
    case Fidelity::kTable:
      break;
  }
  return "table";
}

Result<Fidelity> parse_fidelity(std::string_view name) {
  for (const Fidelity fidelity : {Fidelity::kBound, Fidelity::kAnalytic, Fidelity::kTable}) {
    if (to_string(fidelity) == name) return fidelity;
  }
  return invalid_argument("fidelity: expected bound, analytic or table, got {}", name);
}

CostModel::CostModel(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
CostModel::CostModel(CostModel&&) noexcept = default;
CostModel& CostModel::operator=(CostModel&&) noexcept = default;
CostModel::~CostModel() = default;

Result<CostModel> CostModel::create(ModelShape model, Hardware hardware, Parallelism parallelism,
                                    CostOptions options,
                                    std::shared_ptr<const OperatorTables> tables) {
  QUIRE_RETURN_IF_ERROR(model.validate());
  QUIRE_RETURN_IF_ERROR(hardware.validate());
  QUIRE_RETURN_IF_ERROR(parallelism.validate(model));
  if (parallelism.num_devices() > 1 && hardware.device_link.bytes_per_s <= 0) {
    return invalid_argument("{}: {} devices need a device_link, and the description has none",
                            hardware.name, parallelism.num_devices());
  }
  if (parallelism.tp > hardware.devices_per_node && hardware.node_link.bytes_per_s <= 0) {
    return invalid_argument("{}: tp {} over nodes of {} devices needs a node_link", hardware.name,
                            parallelism.tp, hardware.devices_per_node);
  }
  auto impl = std::make_unique<Impl>();
  impl->windows = model.windows();
  impl->plan = plan_device(model, parallelism);
  if (options.fidelity == Fidelity::kTable) {
    if (tables == nullptr) return invalid_argument("fidelity table needs operator tables");
    impl->tables = std::move(tables);
  }
  const double weight_bytes = static_cast<double>(model.num_parameters()) * model.weights.bytes();
  if (weight_bytes <= hardware.cache_bytes) {
    hardware.memory_bytes_per_s = std::max(hardware.memory_bytes_per_s, hardware.cache_bytes_per_s);
  }
  impl->model = std::move(model);
  impl->hardware = std::move(hardware);
  impl->parallelism = parallelism;
  impl->options = options;
  impl->memoise();
  return CostModel(std::unique_ptr<const Impl>(std::move(impl)));
}

double CostModel::predict_us(const StepShape& step) const {
  if (step.num_requests == 0) return 0;
  return impl_->layers_us(step) + source_part(*impl_, step).us + impl_->head_us(step.num_sampled) +
         impl_->host_us(step);
}

void CostModel::predict_decodes_us(StepShape& step, std::span<const int32_t> num_inside,
                                   std::span<double> out) const {
  std::vector<DecodeLaunches> launches = decode_launches(*impl_, step.decode.num_requests);
  const double sources_us = source_part(*impl_, step).us;
  const double head_us = impl_->head_us(step.num_sampled);
  const double host_us = impl_->host_us(step);
  const double linear_us = impl_->linear_us(impl_->padded(step.num_tokens));
  const double floor_us = impl_->launch_floor_us(step.num_tokens);
  for (double& us : out) {
    const double attention_us = decode_us(*impl_, launches, step.decode);
    us = std::max(linear_us + attention_us, floor_us) + sources_us + head_us + host_us;
    step.decode.context += step.decode.num_requests;
    ++step.decode.max_context;
    for (size_t w = 0; w < num_inside.size(); ++w) step.decode.windowed[w] += num_inside[w];
  }
}

double CostModel::bound_us(const StepShape& step) const {
  if (step.num_requests == 0) return 0;
  double us = impl_->linear_part(step.num_tokens).bound_us + source_part(*impl_, step).bound_us +
              impl_->head_part(step.num_sampled).bound_us;
  for (const GroupPlan& group : impl_->plan.groups) {
    us += group.num_layers * (impl_->prefill_attention(group, step).bound_us +
                              impl_->decode_attention(group, step.decode, step.chunks).bound_us +
                              impl_->prompt_scan(group, step.chunks).bound_us +
                              impl_->token_scan(group, step.decode).bound_us);
  }
  return us;
}

StepCost CostModel::predict(const StepShape& step) const {
  StepCost cost;
  if (step.num_requests == 0) return cost;
  // The combination rule, padding and the launch floor change the sum of the kernels' times; the
  // terms are scaled to match.
  PartCost parts = impl_->linear_part(step.num_tokens);
  KernelSum sum(parts);
  impl_->visit_attention(step, sum);
  const double layers_us = impl_->layers_us(step);
  for (double& term : parts.terms) term *= layers_us / parts.us;
  const PartCost sources = source_part(*impl_, step);
  add(parts, sources);
  const PartCost head = impl_->head_part(step.num_sampled);
  add(parts, head);
  cost.host_us = impl_->host_us(step);
  cost.total_us = layers_us + sources.us + head.us + cost.host_us;
  // On a CPU, time beside the kernels is fitted as host time, but most of it belongs to the layers
  // (norms, ropes, sums), so each stage spends it on its own layers only.
  const double of_layers_us = impl_->hardware.cpu ? cost.host_us : 0;
  const PipelineLayers dealt = deal_layers(impl_->model, impl_->parallelism.pp);
  const double layer_us = (layers_us + of_layers_us) / impl_->model.num_layers();
  cost.stage_us = cost.host_us - of_layers_us +
                  std::max(static_cast<double>(dealt.before_last) * layer_us + sources.us,
                           static_cast<double>(dealt.last) * layer_us + head.us);
  if (impl_->parallelism.pp == 1) cost.stage_us = cost.total_us;
  cost.bound_us = parts.bound_us;
  cost.flops = parts.flops;
  cost.read_bytes = parts.read_bytes;
  cost.write_bytes = parts.write_bytes;
  cost.terms = parts.terms;
  cost.terms[static_cast<size_t>(Term::kHost)] += cost.host_us;
  const auto largest = std::max_element(parts.bound_terms.begin(), parts.bound_terms.end());
  cost.binding = static_cast<Term>(largest - parts.bound_terms.begin());
  return cost;
}

std::array<KernelCost, kNumKernels> CostModel::explain(const StepShape& step) const {
  KernelBreakdown breakdown;
  if (step.num_requests == 0) return breakdown.costs;
  impl_->visit_linear(impl_->padded(step.num_tokens), breakdown);
  impl_->visit_attention(step, breakdown);
  visit_sources(*impl_, step, breakdown);
  impl_->visit_head(step.num_sampled, breakdown);
  KernelCost& host = breakdown.costs[static_cast<size_t>(Kernel::kHost)];
  host.predicted_us = impl_->host_us(step);
  host.bound_by = Term::kHost;
  return breakdown.costs;
}

const ModelShape& CostModel::model() const { return impl_->model; }
const Hardware& CostModel::hardware() const { return impl_->hardware; }
const Parallelism& CostModel::parallelism() const { return impl_->parallelism; }
const std::vector<int32_t>& CostModel::windows() const { return impl_->windows; }
Fidelity CostModel::fidelity() const { return impl_->options.fidelity; }

}  // namespace quire
