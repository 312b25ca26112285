#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/text_fields.h"
#include "base/utf8.h"
#include "facade/running_llm.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/launcher.h"
#include "quire/lora_flags.h"

namespace quire::cli {
namespace {

struct GenerateFlags {
  EngineArgs engine;
  std::vector<std::string> prompts;
  std::string prompt_file;
  int32_t num_choices = 1;
  bool is_quiet = false;
  std::string json_schema, regex, grammar;  // at most one
};

constexpr size_t kMaxPromptBytes = size_t{1} << 30;

// Reads standard input to its end. One line end there is removed, because `echo` adds it.
Result<std::string> read_standard_input() {
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, stdin)) {
    text.append(buffer, n);
    if (text.size() > kMaxPromptBytes) {
      return too_large("standard input: expected at most {} bytes", kMaxPromptBytes);
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Status check_text(const std::string& text, const std::string& where) {
  if (text.empty()) return invalid_argument("{}: expected a text, got nothing", where);
  if (is_valid_utf8(text) && text.find('\0') == text.npos) return {};
  return invalid_argument("{}: expected UTF-8 text, got binary data", where);
}

// Reads standard input for "-", and for a pipe when no prompt is given.
Result<std::vector<std::string>> read_prompts(const GenerateFlags& flags) {
  std::vector<std::string> prompts;
  const auto add = [&](Result<std::string> text, const std::string& where) -> Status {
    if (!text.ok()) return text.status().with_context(where);
    QUIRE_RETURN_IF_ERROR(check_text(*text, where));
    prompts.push_back(std::move(*text));
    return {};
  };
  for (const std::string& prompt : flags.prompts) {
    QUIRE_RETURN_IF_ERROR(prompt == "-" ? add(read_standard_input(), "--prompt -")
                                        : add(prompt, "--prompt"));
  }
  if (flags.prompt_file == "-") {
    QUIRE_RETURN_IF_ERROR(add(read_standard_input(), "--prompt-file -"));
  } else if (!flags.prompt_file.empty()) {
    QUIRE_RETURN_IF_ERROR(
        add(read_text(flags.prompt_file, kMaxPromptBytes), "--prompt-file " + flags.prompt_file));
  }
  if (!prompts.empty()) return prompts;
  if (isatty(STDIN_FILENO) != 0) {
    return invalid_argument(
        "generate: expected a prompt: -p TEXT, --prompt-file FILE or text on standard input");
  }
  QUIRE_RETURN_IF_ERROR(add(read_standard_input(),
                            "generate: neither -p nor --prompt-file is given, and standard "
                            "input"));
  return prompts;
}

Result<LLM::TextRule> structured_outputs(const GenerateFlags& flags) {
  struct Rule {
    const std::string& given;
    StructuredOutputKind kind;
    const char* flag;
  };
  for (const Rule& rule : {Rule{flags.json_schema, StructuredOutputKind::kJson, "--json-schema"},
                           Rule{flags.regex, StructuredOutputKind::kRegex, "--regex"},
                           Rule{flags.grammar, StructuredOutputKind::kGrammar, "--grammar"}}) {
    if (rule.given.empty()) continue;
    StructuredOutputs out{.kind = rule.kind, .field = rule.flag};
    QUIRE_ASSIGN_OR_RETURN(out.text, text_or_file(rule.given));
    return LLM::TextRule(std::move(out));
  }
  return LLM::TextRule();
}

Status run_generate(GenerateFlags& flags, const SamplingFlags& sampling) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts, read_prompts(flags));
  if (!flags.is_quiet) flags.engine.on_progress = loading_bar();
  flags.engine.required_text = RequiredText::kTokenizer;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<LLM> llm, load_llm(flags.engine));
  const std::string adapter = only_adapter(*llm);
  const SamplingParams params = sampling.apply(llm->default_params());
  QUIRE_ASSIGN_OR_RETURN(const LLM::TextRule rule, structured_outputs(flags));
  if (prompts.size() == 1 && flags.num_choices == 1) {  // the common case streams
    const auto print = [](std::string_view text) {
      if (text.empty()) return true;
      std::fwrite(text.data(), 1, text.size(), stdout);
      return std::fflush(stdout) == 0;
    };
    if (!flags.is_quiet) print(prompts[0]);
    QUIRE_RETURN_IF_ERROR(llm->stream(prompts[0], params, print, rule, adapter).status());
    fmt::print("\n");
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(const auto outputs,
                         llm->generate(prompts, params, flags.num_choices, rule, adapter));
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const ChoiceOutput& choice : outputs[i].choices) {
      fmt::print("--- prompt {} choice {} ({})\n{}{}\n", i, choice.index, choice.finish_reason,
                 flags.is_quiet ? "" : prompts[i], choice.text);
    }
  }
  return {};
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "generate", "Continue a text (-p TEXT or standard input) and print the result");
  auto flags = std::make_shared<GenerateFlags>();
  add_model_argument(verb, flags->engine);
  verb.add_option(
      "-p,--prompt", flags->prompts,
      "Text to continue; may be given several times; -: standard input, which is also the default");
  verb.add_option("--prompt-file", flags->prompt_file,
                  "File with a text to continue, in UTF-8; -: standard input");
  verb.add_flag("--no-echo,--quiet", flags->is_quiet,
                "Print only the continuation, without the prompt and the loading bar");
  verb.add_option("-n", flags->num_choices, "Number of continuations of each prompt")
      ->check(in_range(1, 1024));
  auto* schema = verb.add_option(
      "--json-schema", flags->json_schema,
      "The answer is JSON that matches this JSON Schema: the schema itself, or a file with it");
  auto* regex = verb.add_option("--regex", flags->regex,
                                "The whole answer matches this regular expression (ECMA-262)");
  auto* grammar = verb.add_option(
      "--grammar", flags->grammar,
      "The answer follows this grammar in EBNF or Lark: the grammar itself, or a file with it");
  schema->excludes(regex)->excludes(grammar);
  regex->excludes(grammar);
  auto sampling = std::make_shared<SamplingFlags>(verb);
  add_engine_flags(verb, flags->engine);
  add_lora_path_flag(verb, flags->engine.lora);
  verb.callback([flags, sampling, &exit_code] {
    const std::optional<int> ended = run_as_rank(flags->engine);
    exit_code = ended ? *ended : report(run_generate(*flags, *sampling));
  });
}

}  // namespace quire::cli
