// The input is a file that the roofline reads. The first byte chooses: a hardware description, a
// config.json, a model description, a step log, or a table of operator times.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "roofline/calibrate/calibrate_steps.h"
#include "roofline/calibrate/step_log.h"
#include "roofline/model/cost_model.h"
#include "roofline/model/latent_modules.h"
#include "roofline/model/memory_model.h"
#include "roofline/model/mixed_launches.h"
#include "roofline/model/operator_tables.h"

namespace {

using quire::CostModel;

quire::Hardware device() { return quire::find_hardware("h100-sxm").value(); }

// Everything that is accepted must be usable.
void use(const quire::ModelShape& model, const quire::Hardware& hardware) {
  const auto cost = CostModel::create(model, hardware, {}, {.max_memoised_tokens = 1});
  if (!cost.ok()) return;
  quire::StepShape step;
  step.add(100, 1, true, cost->windows());
  step.add(0, 17, true, cost->windows());
  if (!(cost->predict_us(step) >= cost->bound_us(step) * 0.999)) __builtin_trap();
  (void)quire::estimate_memory(model, hardware, {});
}

void use_hardware(std::string_view text) {
  const auto hardware = quire::parse_hardware(text, "input");
  if (!hardware.ok()) return;
  if (!quire::parse_hardware(quire::to_json(*hardware), "again").ok()) __builtin_trap();
}

void use_model(const quire::Result<quire::ModelShape>& model) {
  if (!model.ok()) return;
  if (model->num_parameters() <= 0) __builtin_trap();
  use(*model, device());
}

void use_log(std::string_view text) {
  const auto log = quire::parse_step_log(text, "input");
  if (!log.ok()) return;
  quire::Hardware hardware = device();
  (void)quire::fit_steps(*log, hardware);
  (void)quire::step_residuals(*log, hardware);
}

void use_tables(std::string_view text) {
  const auto gemm = quire::read_gemm_csv(text, "input");
  const auto attention = quire::read_attention_csv(text, "input");
  const auto experts = quire::read_experts_csv(text, "input");
  const auto collectives = quire::read_collective_csv(text, "input");
  const auto use_all = [](const auto& samples) {
    for (size_t i = 0; samples.ok() && i < samples->size() && i < 16; ++i) {
      const quire::KernelTime time = quire::analytic_time((*samples)[i], device());
      if (!(time.predicted_us >= time.bound_us * 0.999)) __builtin_trap();
    }
  };
  use_all(gemm);
  use_all(attention);
  use_all(experts);
  use_all(collectives);
  if (const auto mixed = quire::read_mixed_csv(text, "input"); mixed.ok()) {
    if (!(quire::judge_mixed(*mixed, device()).joined_mape >= 0)) __builtin_trap();
  }
  const auto latent = quire::read_latent_modules_csv(text, "input");
  if (!latent.ok() || latent->empty()) return;
  const auto first = std::span(*latent).first(1);
  const auto report = quire::judge_latent_modules(first, first[0].weights, first[0].kv, device());
  if (report.ok() && !(report->mape >= 0)) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      use_hardware(text);
      break;
    case 1:
      use_model(quire::parse_model_shape(text));
      break;
    case 2:
      use_model(quire::parse_model_description(text, "input"));
      break;
    case 3:
      use_log(text);
      break;
    default:
      use_tables(text);
  }
  return 0;
}
