#include <fmt/format.h>

#include <cstdio>

#include "base/text_fields.h"
#include "facade/running_llm.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"

namespace quire::cli {
namespace {

struct GenerateFlags {
  EngineArgs engine;
  std::vector<std::string> prompts;
  std::string prompt_file;
  int32_t num_choices = 1;
};

Result<std::vector<std::string>> read_prompts(const GenerateFlags& flags) {
  std::vector<std::string> prompts = flags.prompts;
  if (!flags.prompt_file.empty()) {
    constexpr size_t kMaxBytes = size_t{1} << 30;
    Result<std::string> text = read_text(flags.prompt_file, kMaxBytes);
    if (!text.ok()) return text.status().with_context("--prompt-file");
    prompts.push_back(std::move(*text));
  }
  if (prompts.empty())
    return invalid_argument("generate: expected a prompt: -p TEXT or --prompt-file FILE");
  return prompts;
}

Status run_generate(GenerateFlags& flags, const SamplingFlags& sampling) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts, read_prompts(flags));
  flags.engine.on_progress = loading_bar();
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<LLM> llm, load_llm(flags.engine));
  const SamplingParams params = sampling.apply(llm->default_params());
  if (prompts.size() == 1 && flags.num_choices == 1) {  // the common case streams
    const auto print = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      return std::fflush(stdout) == 0;
    };
    print(prompts[0]);
    QUIRE_RETURN_IF_ERROR(llm->stream(prompts[0], params, print).status());
    fmt::print("\n");
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const auto outputs, llm->generate(prompts, params, flags.num_choices));
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const ChoiceOutput& choice : outputs[i].choices) {
      fmt::print("--- prompt {} choice {} ({})\n{}{}\n", i, choice.index, choice.finish_reason,
                 prompts[i], choice.text);
    }
  }
  return {};
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand("generate", "Continue a text and print it");
  auto flags = std::make_shared<GenerateFlags>();
  add_model_argument(verb, flags->engine);
  verb.add_option("-p,--prompt", flags->prompts, "Text to continue; may be given several times");
  verb.add_option("--prompt-file", flags->prompt_file, "File with a text to continue");
  verb.add_option("-n", flags->num_choices, "Continuations of each prompt")
      ->check(in_range(1, 1024));
  auto sampling = std::make_shared<SamplingFlags>(verb);
  add_engine_flags(verb, flags->engine);
  verb.callback(
      [flags, sampling, &exit_code] { exit_code = report(run_generate(*flags, *sampling)); });
}

}  // namespace quire::cli
