// The kernels of sources and their encoder, and of vision towers. Private to the cost model, whose
// Impl is `model`.
#pragma once

#include <algorithm>

#include "roofline/model/cost_model.h"
#include "roofline/model/kernel_time.h"
#include "roofline/model/layer_plan.h"
#include "roofline/model/part_cost.h"

namespace quire {

// Visits a product over `rows` rows of an encoder.
template <typename Model, typename Visit>
void visit_product(const Model& model, const LinearOp& op, double rows, double layers,
                   Visit& visit) {
  visit(Kernel::kEncoder,
        model.gemm({.m = rows,
                    .n = op.n,
                    .k = op.k,
                    .weights = op.weights,
                    .activation_bytes = model.plan.activation_bytes}),
        layers);
}

// Visits layers over rows, each of which sees `num_seen` rows.
template <typename Model, typename Visit>
void visit_layers(const Model& model, const GroupPlan& group, int32_t num_rows, int32_t num_seen,
                  Visit& visit) {
  const double rows = num_rows;
  for (const LinearOp& op : group.linears) visit_product(model, op, rows, group.num_layers, visit);
  const KernelTime small = elementwise_time(
      rows * group.elementwise_bytes_per_token, rows * group.elementwise_written_per_token,
      model.hardware.elementwise.kernels_per_layer, model.hardware);
  visit(Kernel::kEncoder, model.seen(small), group.num_layers);
  const SourceChunk all{num_rows, num_seen};
  visit(Kernel::kEncoder,
        model.seen(source_attention_time(group.prefill, {&all, 1}, model.hardware)),
        group.num_layers);
}

// Each source is encoded separately, and reads the encoder's weights again.
template <typename Model, typename Visit>
void visit_encoder(const Model& model, int32_t num_rows, Visit& visit) {
  const DevicePlan& plan = model.plan;
  for (const LinearOp& op : plan.encoder_front) visit_product(model, op, num_rows, 1, visit);
  for (const GroupPlan& group : plan.encoder) visit_layers(model, group, num_rows, num_rows, visit);
  visit_product(model, plan.source_kv, num_rows, model.model.num_source_layers(), visit);
}

// Each picture is encoded separately too.
template <typename Model, typename Visit>
void visit_pictures(const Model& model, const StepShape& step, Visit& visit) {
  const DevicePlan& plan = model.plan;
  if (plan.tower.empty()) return;
  for (const int32_t embeddings : step.pictures) {
    const int32_t rows = embeddings * model.model.tower.rows_per_embedding;
    for (const LinearOp& op : plan.tower_front) visit_product(model, op, rows, 1, visit);
    for (size_t i = 0; i < plan.tower.size(); ++i) {
      const int32_t window = plan.tower_windows[i];
      visit_layers(model, plan.tower[i], rows, window > 0 ? std::min(window, rows) : rows, visit);
    }
    for (const LinearOp& op : plan.projector) visit_product(model, op, embeddings, 1, visit);
  }
}

template <typename Model, typename Visit>
void visit_sources(const Model& model, const StepShape& step, Visit& visit) {
  visit_pictures(model, step, visit);
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
