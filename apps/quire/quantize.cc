#include <fmt/format.h>

#include <boost/json.hpp>

#include "base/text_fields.h"
#include "device/isa.h"
#include "facade/model_bundle.h"
#include "models/model_config.h"
#include "quantize/activation_aware.h"
#include "quantize/calibration.h"
#include "quantize/calibration_text.h"
#include "quantize/evaluate.h"
#include "quantize/quantize_checkpoint.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"
#include "weights/files/tensor_source.h"

namespace quire::cli {
namespace {

namespace json = boost::json;

constexpr int64_t kCalibrationTokens = 512;

struct QuantizeFlags {
  EngineArgs engine;  // the model, threads and instruction set
  std::string to = "int4-g128";
  std::string output;
  std::string method = "rtn";
  std::string text_file;
  int64_t report_tokens = 512;
  bool as_json = false;
};

Result<std::string> read_calibration_text(const std::string& path) {
  if (path.empty()) return std::string(kCalibrationText);
  constexpr size_t kMaxBytes = size_t{1} << 30;
  Result<std::string> text = read_text(path, kMaxBytes);
  if (!text.ok()) return text.status().with_context("--calibration");
  return text;
}

// Returns the first tokens of the text, at most `most` and fewer than the model's context. Without
// a tokenizer it returns as many ids, spread over the vocabulary.
Result<std::vector<TokenId>> text_tokens(const QuantizeFlags& flags, const ModelBundle& bundle,
                                         const ModelConfig& config, int64_t most) {
  const int64_t limit = std::min(most, config.max_model_len() - 1);
  std::vector<TokenId> tokens;
  if (bundle.tokenizer != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const std::string text, read_calibration_text(flags.text_file));
    tokens = bundle.tokenizer->encode(text, {.add_special_tokens = true});
  } else {
    for (int64_t i = 0; i < limit; ++i) {
      tokens.push_back(static_cast<TokenId>(i * 7919 % config.vocab_size));
    }
  }
  if (static_cast<int64_t>(tokens.size()) > limit) tokens.resize(static_cast<size_t>(limit));
  return tokens;
}

void print_comparison(const LogitComparison& result) {
  fmt::print("perplexity       {:.4f} -> {:.4f} ({:+.2f} %) over {} tokens\n",
             result.source_perplexity, result.perplexity,
             100.0 * (result.perplexity / result.source_perplexity - 1.0), result.num_rows);
  fmt::print("logit error      {:.3f} % of their norm\n", 100.0 * result.relative_error);
  fmt::print("KL divergence    {:.5f} nats per token\n", result.kl_divergence);
  fmt::print("same best token  {:.1f} %\n", 100.0 * result.same_best_token);
}

json::object to_json(const LogitComparison& result) {
  return {{"perplexity_before", result.source_perplexity},
          {"perplexity", result.perplexity},
          {"logit_error_share", result.relative_error},
          {"kl_divergence_nats", result.kl_divergence},
          {"same_best_token_share", result.same_best_token},
          {"num_tokens", result.num_rows}};
}

// Returns no tokens when no report is wanted.
Result<std::vector<TokenId>> report_tokens(const QuantizeFlags& flags, const ModelBundle& bundle,
                                           const ModelConfig& config) {
  if (flags.report_tokens == 0) return std::vector<TokenId>();
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                         text_tokens(flags, bundle, config, flags.report_tokens));
  if (tokens.size() >= 2) return tokens;
  return invalid_argument(
      "expected at least 2 tokens on which to compare the models (--report-tokens, --calibration), "
      "got {}",
      tokens.size());
}

// Compares the model with itself, run with activations rounded to int8.
Status report_activations(const QuantizeFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(flags.engine.model));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(*bundle.files));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(*bundle.files, source));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, report_tokens(flags, bundle, config));
  if (tokens.empty()) return invalid_argument("--report-tokens: expected at least 2, got 0");
  ModelRunnerOptions options = model_runner_options(flags.engine, bundle);
  QUIRE_ASSIGN_OR_RETURN(const TextLogits rounded, text_logits(options, tokens));
  options.activation_int8 = false;
  QUIRE_ASSIGN_OR_RETURN(const TextLogits before, text_logits(options, tokens));
  const LogitComparison comparison = compare_logits(before, rounded);
  if (flags.as_json) {
    print_json(json::object{{"quality", to_json(comparison)}});
  } else {
    print_comparison(comparison);
  }
  return {};
}

Result<LogitComparison> compare_with_source(const QuantizeFlags& flags, const ModelBundle& bundle,
                                            std::span<const TokenId> tokens) {
  QUIRE_ASSIGN_OR_RETURN(const TextLogits source,
                         text_logits(model_runner_options(flags.engine, bundle), tokens));
  EngineArgs quantized = flags.engine;
  quantized.model = flags.output;
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle written, open_model(flags.output));
  QUIRE_ASSIGN_OR_RETURN(const TextLogits after,
                         text_logits(model_runner_options(quantized, written), tokens));
  return compare_logits(source, after);
}

// Computes factors that reduce the error of rounding, from the activations that enter the layers on
// the text.
Result<Rescales> scale_by_activations(const QuantizeFlags& flags, const ModelBundle& bundle,
                                      const TensorSource& source, const ModelConfig& config,
                                      const WriteScheme& scheme, ThreadTeam& team) {
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(flags.engine.isa));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                         text_tokens(flags, bundle, config, kCalibrationTokens));
  if (tokens.empty()) return invalid_argument("--calibration: expected text, got nothing");
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<LayerInputMeans> inputs,
      layer_inputs(source, config, tokens, team, {.isa = isa, .on_progress = loading_bar()}));
  return activation_aware_rescales(source, config, inputs, team,
                                   {.scheme = scheme, .on_progress = loading_bar("searching")});
}

void print_summary(const QuantizeSummary& summary, const WriteScheme& scheme,
                   const std::string& output) {
  constexpr double kMiB = 1 << 20;
  fmt::print("written          {} ({} layers as {}, {:.1f} MiB -> {:.1f} MiB)\n", output,
             summary.num_modules, scheme.name, static_cast<double>(summary.source_bytes) / kMiB,
             static_cast<double>(summary.written_bytes) / kMiB);
  if (summary.num_shards_kept > 0) {
    fmt::print("resumed          {} of {} shards were complete\n", summary.num_shards_kept,
               summary.num_shards);
  }
  if (!summary.kept_modules.empty()) {
    fmt::print(
        "kept as float    {} layers whose row length is no multiple of the group size, such as "
        "{}\n",
        summary.kept_modules.size(), summary.kept_modules.front());
  }
}

json::object to_json(const QuantizeSummary& summary, const WriteScheme& scheme,
                     const std::string& output) {
  return {{"output", output},
          {"scheme", scheme.name},
          {"num_layers", summary.num_modules},
          {"source_bytes", summary.source_bytes},
          {"written_bytes", summary.written_bytes},
          {"num_shards", summary.num_shards},
          {"num_shards_kept", summary.num_shards_kept},
          {"kept_as_float", json::value_from(summary.kept_modules)}};
}

Status run_quantize(QuantizeFlags& flags) {
  if (flags.engine.activation_int8) return report_activations(flags);
  if (flags.output.empty()) {
    return invalid_argument(
        "expected --output FOLDER, or --activation-int8 to compare and write nothing");
  }
  QUIRE_ASSIGN_OR_RETURN(const WriteScheme scheme, parse_write_scheme(flags.to));
  QUIRE_RETURN_IF_ERROR(read_calibration_text(flags.text_file).status());
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(flags.engine.model));
  QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(*bundle.files));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(*bundle.files, source));
  // The text is read before hours of work, so that a mistake in what the report needs is found
  // first.
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, report_tokens(flags, bundle, config));
  QUIRE_ASSIGN_OR_RETURN(
      ThreadTeam team, ThreadTeam::create({.num_threads = flags.engine.num_threads, .pin = false}));
  QuantizeOptions options{.output = flags.output, .scheme = scheme};
  options.method = flags.method;
  QUIRE_RETURN_IF_ERROR(claim_output(*bundle.files, source, config, team, options));
  if (flags.method == "awq") {
    QUIRE_ASSIGN_OR_RETURN(options.rescales,
                           scale_by_activations(flags, bundle, source, config, scheme, team));
  }
  options.on_progress = loading_bar("quantizing");
  QUIRE_ASSIGN_OR_RETURN(const QuantizeSummary summary,
                         quantize_checkpoint(*bundle.files, source, config, team, options));
  if (!flags.as_json) print_summary(summary, scheme, flags.output);
  std::optional<LogitComparison> quality;
  if (!tokens.empty()) {
    QUIRE_ASSIGN_OR_RETURN(quality, compare_with_source(flags, bundle, tokens));
  }
  if (flags.as_json) {
    json::object out = to_json(summary, scheme, flags.output);
    if (quality) out["quality"] = to_json(*quality);
    print_json(std::move(out));
  } else if (quality) {
    print_comparison(*quality);
  }
  return {};
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "quantize",
      "Write a smaller checkpoint (compressed-tensors) and measure the loss of quality");
  auto flags = std::make_shared<QuantizeFlags>();
  verb.add_option("MODEL", flags->engine.model, "Hugging Face directory with float weights")
      ->required();
  verb.add_option("--to", flags->to, "Format of the written weights: " + known_write_schemes())
      ->capture_default_str();
  verb.add_option("-o,--output", flags->output,
                  "Output folder; an unfinished run of the same job there is resumed");
  verb.add_flag("--activation-int8", flags->engine.activation_int8,
                "Write nothing; measure the loss of quality of MODEL when it runs with the flag of "
                "this name. MODEL may then be a .gguf file or quantized");
  verb.add_option("--method", flags->method,
                  "How weights are rounded: rtn (to the nearest value) or awq (scaled first by the "
                  "activations that the text causes)")
      ->check(one_of({"rtn", "awq"}))
      ->capture_default_str();
  verb.add_option("--calibration", flags->text_file,
                  "File with the text for awq and for the report; default: a built-in text");
  verb.add_option("--report-tokens", flags->report_tokens,
                  "Number of tokens of the text on which both models are compared; 0: no report")
      ->check(in_range(0, 4096))
      ->capture_default_str();
  verb.add_option("--threads", flags->engine.num_threads,
                  "Number of compute threads; 0: one per physical core")
      ->check(in_range(0, 1024));
  add_json_flag(verb, flags->as_json);
  verb.add_option("--isa", flags->engine.isa,
                  "Instruction set of the CPU kernels, as in quire serve")
      ->capture_default_str();
  verb.callback([flags, &exit_code] { exit_code = report(run_quantize(*flags)); });
}

}  // namespace quire::cli
