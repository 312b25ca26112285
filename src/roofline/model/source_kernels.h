// The kernels of what a decoder looks at beside its tokens. Private to the cost model, whose Impl
// `model` is.
#pragma once

#include "roofline/model/cost_model.h"
#include "roofline/model/kernel_time.h"
#include "roofline/model/layer_plan.h"
#include "roofline/model/part_cost.h"

namespace quire {

// Each source is encoded by itself: it reads the encoder's weights once more.
template <typename Model, typename Visit>
void visit_encoder(const Model& model, int32_t num_rows, Visit& visit) {
  const DevicePlan& plan = model.plan;
  const double rows = num_rows;
  const auto product = [&](const LinearOp& op, double layers) {
    visit(Kernel::kEncoder,
          model.gemm({.m = rows,
                      .n = op.n,
                      .k = op.k,
                      .weights = op.weights,
                      .activation_bytes = plan.activation_bytes}),
          layers);
  };
  for (const LinearOp& op : plan.encoder_front) product(op, 1);
  for (const GroupPlan& group : plan.encoder) {
    for (const LinearOp& op : group.linears) product(op, group.num_layers);
    const KernelTime small = elementwise_time(
        rows * group.elementwise_bytes_per_token, rows * group.elementwise_written_per_token,
        model.hardware.elementwise.kernels_per_layer, model.hardware);
    visit(Kernel::kEncoder, model.seen(small), group.num_layers);
    const SourceChunk all{num_rows, num_rows};
    visit(Kernel::kEncoder,
          model.seen(source_attention_time(group.prefill, {&all, 1}, model.hardware)),
          group.num_layers);
  }
  product(plan.source_kv, model.model.num_source_layers());
}

template <typename Model, typename Visit>
void visit_sources(const Model& model, const StepShape& step, Visit& visit) {
  const AttentionWork& cross = model.plan.cross;
  if (cross.num_heads <= 0) return;
  for (const int32_t rows : step.encoded_rows) visit_encoder(model, rows, visit);
  const double layers = model.model.num_source_layers();
  if (step.decode_source_rows > 0) {
    const KernelTime time =
        decode_attention_time(cross, step.decode.num_requests,
                              static_cast<double>(step.decode_source_rows), model.hardware);
    visit(Kernel::kCrossAttention, model.seen(time), layers);
  }
  if (step.source_chunks.empty()) return;
  visit(Kernel::kCrossAttention,
        model.seen(source_attention_time(cross, step.source_chunks, model.hardware)), layers);
}

template <typename Model>
PartCost source_part(const Model& model, const StepShape& step) {
  PartCost cost;
  KernelSum sum(cost);
  visit_sources(model, step, sum);
  return cost;
}

}  // namespace quire
