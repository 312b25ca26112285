#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/log.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/launcher.h"
#include "quire/lora_flags.h"
#include "quire/serve_flags.h"
#include "quire/served_model.h"
#include "server/batch_runner.h"

namespace quire::cli {
namespace {

struct RunBatchFlags {
  ServeFlags serve;
  BatchOptions batch;
};

Status run_run_batch(RunBatchFlags& flags) {
  ServeFlags& serve = flags.serve;
  serve.engine.on_progress = loading_bar();
  serve.engine.engine.max_logprobs = serve.server.max_logprobs;
  QUIRE_ASSIGN_OR_RETURN(const RunningModel running, start_model(serve.engine));
  serve.server.reply_format = reply_format(serve, running.bundle);
  const ProgressBar bar = progress_bar("answering");
  if (bar) flags.batch.on_progress = bar;
  QUIRE_ASSIGN_OR_RETURN(ServedModel served, served_model(serve, running));
  QUIRE_ASSIGN_OR_RETURN(const BatchCounts counts,
                         run_batch(flags.batch, serve.server, std::move(served)));
  fmt::print(stderr, "{} requests: {} answered, {} failed, {} kept from an earlier run\n",
             counts.num_requests, counts.num_answered, counts.num_failed, counts.num_kept);
  return {};
}

}  // namespace

void add_run_batch(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "run-batch", "Answer a file of requests in the format of OpenAI's batches");
  auto flags = std::make_shared<RunBatchFlags>();
  add_model_argument(verb, flags->serve.engine);
  verb.add_option("--model", flags->serve.model,
                  "MODEL under the name that vLLM's start scripts use");
  verb.add_option("-i,--input-file", flags->batch.input,
                  "File with the requests, one line of JSON each: custom_id, method, url and body")
      ->required();
  verb.add_option(
          "-o,--output-file", flags->batch.output,
          "File for the answers, one line each, in the order in which they are ready. A file with "
          "answers of an earlier run is continued; its requests are not sent again")
      ->required();
  verb.add_flag("--overwrite", flags->batch.overwrite,
                "Start again and overwrite the file with the answers");
  verb.add_option("--max-concurrent", flags->batch.max_concurrent,
                  "Number of requests that run at the same time")
      ->check(in_range(1, 4096))
      ->capture_default_str();
  verb.add_option("--served-model-name", flags->serve.served_model_names,
                  "Names by which requests may ask for the model; default: the model's own name");
  add_chat_template_flag(verb, flags->serve.engine);
  add_engine_flags(verb, flags->serve.engine);
  add_lora_flags(verb, flags->serve.engine.lora);
  verb.callback([flags, &exit_code] {
    EngineArgs& engine = flags->serve.engine;
    if (engine.model.empty()) engine.model = flags->serve.model;
    const std::optional<int> ended = run_as_rank(engine);
    exit_code = ended ? *ended : report(run_run_batch(*flags));
  });
}

}  // namespace quire::cli
