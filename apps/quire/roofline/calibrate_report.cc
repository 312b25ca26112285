#include "quire/roofline/calibrate_report.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <utility>

#include "quire/json_output.h"

namespace quire::roofline {
namespace {

namespace json = boost::json;

// Returns a warning about a kernel that takes far longer than bfloat16 weights of the same shapes.
std::string untuned_text(const FitReport& fit) {
  if (!fit.untuned) return "";
  return fmt::format(
      "\n{:<24} takes {:.1f} times as long as bfloat16 weights of the same shapes: no server would "
      "choose this kernel, and nothing is fitted to it (use --allow-worse to fit it anyway)",
      "", fit.times_bf16);
}

void print_fit(const FitReport& fit) {
  const std::string dispatched =
      fit.num_dispatched == 0
          ? ""
          : fmt::format(", left out {} samples that are as short as the host's dispatch",
                        fit.num_dispatched);
  fmt::print(
      "{:<24} {} + {} samples{}{}: fitted half {:.1f} %, other half {:.1f} % (bias {:+.1f} "
      "%){}{}\n",
      fit.what, fit.num_train, fit.num_test,
      fit.num_impossible > 0
          ? fmt::format(", left out {} that are faster than possible", fit.num_impossible)
          : "",
      dispatched, fit.train_mape, fit.test_mape, fit.test_bias,
      fit.table_test_mape > 0 ? fmt::format(", table {:.1f} %", fit.table_test_mape) : "",
      untuned_text(fit));
}

json::object to_json(const FitReport& fit) {
  json::object out{{"what", fit.what},
                   {"num_fitted", fit.num_train},
                   {"num_judged", fit.num_test},
                   {"num_impossible", fit.num_impossible},
                   {"num_dispatched", fit.num_dispatched},
                   {"untuned", fit.untuned},
                   {"fitted_error_percent", fit.train_mape},
                   {"judged_error_percent", fit.test_mape},
                   {"judged_bias_percent", fit.test_bias}};
  if (fit.table_test_mape > 0) out["table_error_percent"] = fit.table_test_mape;
  return out;
}

void print_steps(const StepFitReport& fit, std::string_view model) {
  fmt::print(
      "{} steps of {}: {} fitted and {} judged, then all fitted and scaled by {:+.1f} % to the "
      "mean\n"
      "left out: {} disturbed, {} failed, {} faster than possible\n"
      "requests waited in {:.0f} %, the machine's speed drifted by {:.1f} %\n",
      fit.num_steps, model, fit.num_train, fit.num_test, 100 * fit.mean_shift, fit.num_disturbed,
      fit.num_failed, fit.num_impossible, 100 * fit.waiting_share, fit.drift);
  fmt::print(
      "{:.0f} us between steps; error: fitted half {:.1f} %, other half {:.1f} % (median {:.1f} %, "
      "bias {:+.1f} %); "
      "decode {:.1f} %, prompts {:.1f} %, mixed {:.1f} %\n",
      fit.gap_us, fit.train_mape, fit.test_mape, fit.test_median, fit.test_bias, fit.decode_mape,
      fit.prefill_mape, fit.mixed_mape);
}

json::object to_json(const StepFitReport& fit, std::string_view model) {
  return {{"model", model},
          {"num_steps", fit.num_steps},
          {"num_fitted", fit.num_train},
          {"num_judged", fit.num_test},
          {"num_disturbed", fit.num_disturbed},
          {"num_failed", fit.num_failed},
          {"num_impossible", fit.num_impossible},
          {"waiting_share", fit.waiting_share},
          {"drift_percent", fit.drift},
          {"gap_us", fit.gap_us},
          {"fitted_error_percent", fit.train_mape},
          {"judged_error_percent", fit.test_mape},
          {"judged_median_error_percent", fit.test_median},
          {"judged_bias_percent", fit.test_bias},
          {"decode_error_percent", fit.decode_mape},
          {"prompt_error_percent", fit.prefill_mape},
          {"mixed_error_percent", fit.mixed_mape}};
}

}  // namespace

void CalibrateReport::add(const FitReport& fit) {
  if (as_json_) {
    fits_.push_back(to_json(fit));
  } else {
    print_fit(fit);
  }
}

void CalibrateReport::add(const MixedReport& mixed) {
  if (!as_json_) {
    fmt::print(
        "mixed attention launches  {} samples, nothing fitted: a launch for each kind {:.1f} % "
        "(bias {:+.1f} %), one launch for both {:.1f} % (bias {:+.1f} %)\n",
        mixed.num_samples, mixed.apart_mape, mixed.apart_bias, mixed.joined_mape,
        mixed.joined_bias);
    return;
  }
  mixed_.push_back(json::object{{"num_judged", mixed.num_samples},
                                {"apart_error_percent", mixed.apart_mape},
                                {"apart_bias_percent", mixed.apart_bias},
                                {"joined_error_percent", mixed.joined_mape},
                                {"joined_bias_percent", mixed.joined_bias}});
}

void CalibrateReport::add(std::string_view what, const LatentModuleReport& latent) {
  if (!as_json_) {
    fmt::print("latent attention, {}  {} samples, nothing fitted: {:.1f} % (bias {:+.1f} %)\n",
               what, latent.num_samples, latent.mape, latent.bias);
    return;
  }
  latent_.push_back(json::object{{"what", what},
                                 {"num_judged", latent.num_samples},
                                 {"judged_error_percent", latent.mape},
                                 {"judged_bias_percent", latent.bias}});
}

void CalibrateReport::add(const StepFitReport& steps, std::string_view model) {
  if (as_json_) {
    out_["steps"] = to_json(steps, model);
  } else {
    print_steps(steps, model);
  }
}

void CalibrateReport::written_to(const std::string& path) {
  if (as_json_) {
    out_["written_to"] = path;
  } else {
    fmt::print("written to {}\n", path);
  }
}

void CalibrateReport::finish() {
  if (!as_json_) return;
  out_["fits"] = std::move(fits_);
  if (!mixed_.empty()) out_["mixed_launches"] = std::move(mixed_);
  if (!latent_.empty()) out_["latent_attention"] = std::move(latent_);
  cli::print_json(std::move(out_));
}

}  // namespace quire::roofline
