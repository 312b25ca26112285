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
  fmt::print(stderr, "{} requests: {} answered, {} failed, {} kept from before\n",
             counts.num_requests, counts.num_answered, counts.num_failed, counts.num_kept);
  return {};
}

}  // namespace

void add_run_batch(CLI::App& app, int& exit_code) {
  CLI::App& verb =
      *app.add_subcommand("run-batch", "Answer a file of requests, as OpenAI's batches have them");
  auto flags = std::make_shared<RunBatchFlags>();
  add_model_argument(verb, flags->serve.engine);
  verb.add_option("--model", flags->serve.model, "Another way to name MODEL");
  verb.add_option("-i,--input-file", flags->batch.input,
                  "Requests, a line of JSON each: custom_id, method, url and body")
      ->required();
  verb.add_option("-o,--output-file", flags->batch.output,
                  "Answers, a line each, in the order in which they are ready. A file with answers "
                  "of an earlier run is gone on with: what it answers is not asked again")
      ->required();
  verb.add_flag("--overwrite", flags->batch.overwrite, "Begin anew, whatever the file holds");
  verb.add_option("--max-concurrent", flags->batch.max_concurrent, "Requests under way at once")
      ->check(in_range(1, 4096))
      ->capture_default_str();
  verb.add_option("--served-model-name", flags->serve.served_model_names,
                  "Names that requests may call the model by; the model's own by default");
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
