#include "quire/roofline/roofline_json.h"

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "quire/roofline/roofline_text.h"
#include "quire/roofline/what_ifs.h"

namespace quire::roofline {
namespace {

namespace json = boost::json;

json::object model_json(const ModelShape& model) {
  return {{"name", model.name},
          {"num_layers", model.num_layers()},
          {"num_parameters", model.num_parameters()},
          {"num_active_parameters", model.num_active_parameters()},
          {"weights", weights_text(model)},
          {"kv_bytes_per_token", model.kv_bytes_per_token()},
          {"state_bytes_per_sequence", model.state_bytes_per_sequence()}};
}

json::object hardware_json(const Hardware& hardware, MathType asked) {
  const MathType math = hardware.effective_math(asked);
  return {{"name", hardware.name},
          {"math", to_string(math)},
          {"peak_tflop_per_s", hardware.peak(math) * 1e-12},
          {"memory_gb_per_s", hardware.memory_bytes_per_s * 1e-9},
          {"memory_gb", hardware.memory_bytes * 1e-9},
          {"source", hardware.provenance.source}};
}

// Returns {"error": TEXT} when the weights do not fit.
json::object memory_json(const Result<MemoryEstimate>& memory) {
  if (!memory.ok()) return {{"error", memory.status().message()}};
  return {{"weight_bytes", memory->weight_bytes}, {"activation_bytes", memory->activation_bytes},
          {"other_bytes", memory->other_bytes},   {"kv_bytes", memory->kv_bytes},
          {"num_tokens", memory->num_tokens},     {"num_blocks", memory->num_blocks}};
}

json::object step_json(const StepCost& step, double tokens) {
  return {{"bound_us", step.bound_us},
          {"predicted_us", step.total_us},
          {"tokens_per_s", tokens / step.total_us * 1e6},
          {"tokens_per_s_bound", tokens / step.bound_us * 1e6},
          {"binds", to_string(step.binding)}};
}

json::array kernels_json(const CostModel& cost, const StepShape& step) {
  json::array kernels;
  const auto costs = cost.explain(step);
  for (size_t i = 0; i < costs.size(); ++i) {
    const KernelCost& kernel = costs[i];
    if (kernel.predicted_us <= 0) continue;
    kernels.push_back(json::object{{"kernel", to_string(static_cast<Kernel>(i))},
                                   {"gflop", kernel.flops * 1e-9},
                                   {"gb", (kernel.read_bytes + kernel.write_bytes) * 1e-9},
                                   {"bound_us", kernel.bound_us},
                                   {"predicted_us", kernel.predicted_us},
                                   {"binds", to_string(kernel.bound_by)}});
  }
  return kernels;
}

json::array what_ifs_json(const CostModel& cost, const ReportOptions& options) {
  const int32_t context = options.contexts.front();
  json::array out;
  for (const WhatIf& what : what_ifs(cost)) {
    json::array speeds;
    for (const int32_t batch : options.batch_sizes) {
      const auto speed = tokens_per_s(what, cost.hardware(), batch, context);
      speeds.push_back(speed ? json::value(*speed) : json::value(nullptr));
    }
    out.push_back(json::object{{"what", what.name},
                               {"context", context},
                               {"batch_sizes", json::value_from(options.batch_sizes)},
                               {"tokens_per_s", std::move(speeds)}});
  }
  return out;
}

}  // namespace

json::object steps_json(const CostModel& model, const ReportOptions& options) {
  const Result<MemoryEstimate> memory =
      estimate_memory(model.model(), model.hardware(), model.parallelism());
  json::array decode, prompts;
  for (const int32_t context : options.contexts) {
    for (const int32_t batch : options.batch_sizes) {
      json::object row = step_json(model.predict(decode_step(model, batch, context)), batch);
      row["batch"] = batch;
      row["context"] = context;
      row["fits"] = memory.ok() && int64_t{batch} * context <= memory->num_tokens;
      decode.push_back(std::move(row));
    }
  }
  for (const int32_t tokens : options.prompts) {
    json::object row = step_json(model.predict(prompt_step(model, tokens)), tokens);
    row["tokens"] = tokens;
    prompts.push_back(std::move(row));
  }
  const Parallelism& parallel = model.parallelism();
  return {{"model", model_json(model.model())},
          {"hardware", hardware_json(model.hardware(), model.model().weights.math)},
          {"parallelism",
           json::object{
               {"tp", parallel.tp}, {"pp", parallel.pp}, {"ep", parallel.ep}, {"dp", parallel.dp}}},
          {"memory", memory_json(memory)},
          {"decode", std::move(decode)},
          {"prompts", std::move(prompts)}};
}

json::object report_json(const CostModel& model, const ReportOptions& options) {
  json::object out = steps_json(model, options);
  const ExplainedSteps steps = explained_steps(options);
  out["kernels"] = json::object{
      {"decode", json::object{{"batch", steps.batch},
                              {"context", steps.context},
                              {"kernels", kernels_json(model, decode_step(model, steps.batch,
                                                                          steps.context))}}},
      {"prompt", json::object{{"tokens", steps.prompt},
                              {"kernels", kernels_json(model, prompt_step(model, steps.prompt))}}}};
  if (!options.image_items.empty()) {
    const KernelCost image = image_cost(model, options);
    out["image"] = json::object{
        {"size", options.image_size},        {"items", json::value_from(options.image_items)},
        {"gflop", image.flops * 1e-9},       {"gb", (image.read_bytes + image.write_bytes) * 1e-9},
        {"bound_us", image.bound_us},        {"predicted_us", image.predicted_us},
        {"binds", to_string(image.bound_by)}};
  }
  out["what_if"] = what_ifs_json(model, options);
  return out;
}

}  // namespace quire::roofline
