// `quire roofline` shows what the hardware allows a model, and what it will do.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdio>

#include "base/text_fields.h"
#include "facade/hardware/machine_hardware.h"
#include "facade/images/picture_sizes.h"
#include "facade/model_shape_file.h"
#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"
#include "quire/output_file.h"
#include "quire/roofline/commands.h"
#include "quire/roofline/roofline_compare.h"
#include "quire/roofline/roofline_json.h"
#include "quire/roofline/roofline_plot.h"
#include "quire/roofline/roofline_report.h"
#include "quire/roofline/table_files.h"
#include "quire/sim/workload_flags.h"

namespace quire::roofline {
namespace {

struct Flags {
  std::string model;
  std::string hardware = "auto";
  std::string weights, kv;
  std::string fidelity = "analytic";
  std::string plot;
  std::vector<std::string> tables;
  int32_t num_threads = 0;
  Parallelism parallelism;
  double routing_skew = 0;
  ReportOptions report;
  bool as_json = false;
};

Result<NumberFormat> format_of(const std::string& name) {
  const std::optional<NumberFormat> format = parse_number_format(name);
  if (!format) {
    return invalid_argument(
        "expected a format such as float32, bfloat16, fp8, int8, int4, mxfp4, nvfp4 or q4_k, got "
        "{}",
        name);
  }
  return *format;
}

Result<ModelShape> load_model(const Flags& flags) {
  QUIRE_ASSIGN_OR_RETURN(ModelShape model, read_model_shape(flags.model));
  if (!flags.weights.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const NumberFormat format, format_of(flags.weights));
    model = with_weights(std::move(model), format);
  }
  if (!flags.kv.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const NumberFormat format, format_of(flags.kv));
    model = with_kv(std::move(model), format);
  }
  return model;
}

// Prints every model on every device, in columns.
Status run_compare(const Flags& flags, const std::vector<std::string>& models,
                   const std::vector<std::string>& devices) {
  QUIRE_ASSIGN_OR_RETURN(const Fidelity fidelity, parse_fidelity(flags.fidelity));
  if (fidelity == Fidelity::kTable) {
    return invalid_argument(
        "--fidelity: expected analytic or bound, got table; tables describe one device and cannot "
        "compare several");
  }
  QUIRE_RETURN_IF_ERROR(cli::check_writable(flags.plot));
  std::vector<CostModel> columns;
  for (const std::string& path : models) {
    Flags one = flags;
    one.model = path;
    QUIRE_ASSIGN_OR_RETURN(const ModelShape model, load_model(one));
    for (const std::string& device : devices) {
      QUIRE_ASSIGN_OR_RETURN(const Hardware hardware,
                             resolve_hardware(device, {.num_threads = flags.num_threads}));
      QUIRE_ASSIGN_OR_RETURN(CostModel cost,
                             CostModel::create(model, hardware, flags.parallelism,
                                               {.fidelity = fidelity,
                                                .max_memoised_tokens = 0,
                                                .routing_skew = flags.routing_skew}));
      columns.push_back(std::move(cost));
    }
  }
  const std::string text = compare(columns, flags.report);
  if (flags.as_json) {
    boost::json::array out;
    for (const CostModel& column : columns) out.push_back(steps_json(column, flags.report));
    cli::print_json(std::move(out));
  } else {
    fmt::print("{}", text);
  }
  if (flags.plot.empty()) return {};
  const bool html = flags.plot.ends_with(".html");
  return cli::write_file(flags.plot, html ? compare_html(columns, flags.report, text)
                                          : compare_svg(columns, flags.report));
}

// Sets the numbers of embeddings of the image that the flags ask about.
Status add_image_items(Flags& flags) {
  if (flags.report.image_size.empty()) return {};
  QUIRE_ASSIGN_OR_RETURN(const cli::PictureSize size,
                         cli::parse_picture_size(flags.report.image_size, "--image-size"));
  QUIRE_ASSIGN_OR_RETURN(flags.report.image_items,
                         picture_items(flags.model, size.width, size.height));
  return {};
}

Status run_roofline(const Flags& given) {
  Flags flags = given;
  QUIRE_RETURN_IF_ERROR(cli::check_writable(flags.plot));
  QUIRE_RETURN_IF_ERROR(add_image_items(flags));
  QUIRE_ASSIGN_OR_RETURN(const ModelShape model, load_model(flags));
  QUIRE_ASSIGN_OR_RETURN(const Hardware hardware,
                         resolve_hardware(flags.hardware, {.num_threads = flags.num_threads}));
  QUIRE_ASSIGN_OR_RETURN(const Fidelity fidelity,
                         fidelity_of(flags.fidelity, flags.tables, hardware));
  std::shared_ptr<const OperatorTables> tables;
  if (fidelity == Fidelity::kTable) {
    QUIRE_ASSIGN_OR_RETURN(tables, load_tables(flags.tables, hardware));
  }
  QUIRE_ASSIGN_OR_RETURN(
      const CostModel cost,
      CostModel::create(
          model, hardware, flags.parallelism,
          {.fidelity = fidelity, .max_memoised_tokens = 0, .routing_skew = flags.routing_skew},
          tables));
  if (flags.as_json) {
    boost::json::object out = report_json(cost, flags.report);
    out["fidelity"] = to_string(fidelity);
    cli::print_json(std::move(out));
  } else {
    if (flags.fidelity == "auto") fmt::print("fidelity         {}\n", to_string(fidelity));
    fmt::print("{}", report(cost, flags.report));
  }
  if (flags.plot.empty()) return {};
  const bool html = flags.plot.ends_with(".html");
  QUIRE_RETURN_IF_ERROR(cli::write_file(
      flags.plot, html ? roofline_html(cost, flags.report) : roofline_svg(cost, flags.report)));
  fmt::print(stderr, "plot: {}\n", flags.plot);
  return {};
}

constexpr const char* kModelHelp =
    "Folder with a config.json, that file, a .gguf file or a step log; default: the built-in model";
constexpr const char* kHardwareHelp =
    "Hardware to compute for: auto (this machine), a JSON file, or a known device: h100-sxm, "
    "h200-sxm, b200, a100-sxm, l40s, rtx-4090 …";

void add_model_flags(CLI::App& verb, Flags& flags) {
  verb.add_option(
      "--weights", flags.weights,
      "Compute with weights stored as fp8, int8, int4, q4_k …; default: as the model has them");
  verb.add_option("--kv-cache-dtype", flags.kv,
                  "Compute with a KV cache stored as fp8 …; default: as the model has it");
  verb.add_option("--tensor-parallel-size,--tp", flags.parallelism.tp,
                  "Number of devices that share every layer")
      ->check(cli::at_least(1));
  verb.add_option("--pipeline-parallel-size,--pp", flags.parallelism.pp,
                  "Number of pipeline stages")
      ->check(cli::at_least(1));
  verb.add_option("--expert-parallel-size,--ep", flags.parallelism.ep,
                  "Number of devices that share the experts")
      ->check(cli::at_least(1));
  verb.add_option("--data-parallel-size,--dp", flags.parallelism.dp,
                  "Number of replicas of the attention layers that share the experts")
      ->check(cli::at_least(1));
}

void add_shape_flags(CLI::App& verb, Flags& flags) {
  verb.add_option("--routing-skew", flags.routing_skew,
                  "For models with experts: exponent of the power law by which tokens choose "
                  "experts; 0: uniform. The default of quire simulate is 1.01")
      ->check(cli::between(0, 4))
      ->capture_default_str();
  verb.add_option("--fidelity", flags.fidelity,
                  "How times are predicted: bound (perfect kernels, no overhead), analytic (fitted "
                  "formulas), table (measured operators) or auto (table if there are tables of "
                  "this device, else analytic)")
      ->capture_default_str();
  verb.add_option("--batch", flags.report.batch_sizes, "Batch sizes of decode steps")
      ->delimiter(',')
      ->check(cli::in_range(1, 65536))
      ->capture_default_str();
  verb.add_option("--context", flags.report.contexts, "Context lengths of decode steps")
      ->delimiter(',')
      ->check(cli::in_range(8, 1 << 24))
      ->capture_default_str();
  verb.add_option("--prompt", flags.report.prompts, "Lengths of prompts in tokens")
      ->delimiter(',')
      ->check(cli::in_range(2, 1 << 24))
      ->capture_default_str();
}

void add_output_flags(CLI::App& verb, Flags& flags) {
  cli::add_json_flag(verb, flags.as_json);
  verb.add_option("--plot", flags.plot, "Write the plot to FILE.svg or FILE.html")
      ->check([](const std::string& path) {
        return path.ends_with(".svg") || path.ends_with(".html")
                   ? std::string()
                   : "expected FILE.svg or FILE.html, got " + path;
      });
}

void add_compare(CLI::App& roofline, int& exit_code) {
  struct Sides {
    Flags flags;
    std::vector<std::string> models = {""};
    std::vector<std::string> devices = {"auto"};
  };
  auto sides = std::make_shared<Sides>();
  CLI::App& verb = *roofline.add_subcommand(
      "compare", "Compare models and devices side by side, each with the first");
  verb.add_option("MODELS", sides->models, kModelHelp);
  verb.add_option("--hardware", sides->devices, kHardwareHelp)->delimiter(',');
  add_model_flags(verb, sides->flags);
  add_shape_flags(verb, sides->flags);
  add_output_flags(verb, sides->flags);
  verb.callback([sides, &exit_code] {
    exit_code = cli::report(run_compare(sides->flags, sides->models, sides->devices));
  });
}

}  // namespace

Result<std::string> read_input(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{4} << 30;
  return read_text(path, kMaxBytes);
}

}  // namespace quire::roofline

namespace quire::cli {

void add_roofline(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand("roofline",
                                       "Show how fast the hardware lets a model run: bounds, "
                                       "predictions and what would make it faster");
  auto flags = std::make_shared<roofline::Flags>();
  verb.add_option("MODEL", flags->model, roofline::kModelHelp);
  verb.add_option("--hardware", flags->hardware, roofline::kHardwareHelp)->capture_default_str();
  roofline::add_model_flags(verb, *flags);
  roofline::add_shape_flags(verb, *flags);
  verb.add_option("--tables", flags->tables,
                  "CSV files with measured operator times, or folders with such files, for "
                  "--fidelity table")
      ->delimiter(',');
  verb.add_option(
      "--image-size", flags->report.image_size,
      "Show the cost of an image of WIDTHxHEIGHT pixels, for a model that reads images");
  CLI::Option* const explain =
      verb.add_flag("--explain", flags->report.explain,
                    "Explain the times of the listed steps: show the arithmetic in words");
  roofline::add_output_flags(verb, *flags);
  explain->excludes("--json");
  roofline::add_compare(verb, exit_code);
  roofline::add_probe(verb, exit_code);
  roofline::add_calibrate(verb, exit_code);
  roofline::add_residuals(verb, exit_code);
  verb.require_subcommand(0, 1);
  verb.callback([flags, &verb, &exit_code] {
    if (verb.get_subcommands().empty()) exit_code = report(roofline::run_roofline(*flags));
  });
}

}  // namespace quire::cli
