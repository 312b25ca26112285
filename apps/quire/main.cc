// The program serves, runs, inspects and measures open-weight language models.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "quire/commands.h"
#include "quire/route.h"
#include "quire/settings/settings.h"
#include "quire/usage.h"
#include "quire/version.h"
#include "quire/vllm_flags.h"

namespace quire::cli {
namespace {

void add_verbs(CLI::App& app, int& exit_code, Settings& settings) {
  add_serve(app, exit_code, settings);
  add_route(app, exit_code);
  add_chat(app, exit_code);
  add_ps(app, exit_code);
  add_pull(app, exit_code);
  add_generate(app, exit_code);
  add_run_batch(app, exit_code);
  add_embed(app, exit_code);
  add_rerank(app, exit_code);
  add_tokenize(app, exit_code);
  add_inspect(app, exit_code);
  add_adapters(app, exit_code);
  add_quantize(app, exit_code);
  add_bench(app, exit_code);
  add_simulate(app, exit_code);
  add_plan(app, exit_code);
  add_compare(app, exit_code);
  add_roofline(app, exit_code);
  add_completion(app);
  add_man(app);
}

}  // namespace
}  // namespace quire::cli

int main(int argc, char** argv) {
  CLI::App app{
      "Quire runs open-weight language models: in a terminal, for OpenAI clients and in your "
      "program.\n"
      "MODEL is a Hugging Face directory or a .gguf file; the default is the built-in model, a "
      "demo of 3.5 million parameters.\n\n"
      "  quire chat                       talk to the built-in model\n"
      "  quire serve /models/qwen3-0.6b   serve the OpenAI API and a web page on port 8000\n"
      "  quire inspect /models/qwen3-0.6b show the model, and whether it fits into memory\n"};
  app.name("quire");
  app.set_version_flag("--version", quire::version_text());
  app.require_subcommand(1);
  app.formatter(std::make_shared<quire::cli::HelpFormatter>());
  app.failure_message(quire::cli::failure_line);

  int exit_code = 0;
  quire::cli::Settings settings;
  quire::cli::add_verbs(app, exit_code, settings);
  try {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments.front() == "serve") {
      auto expanded = settings.expand(*app.get_subcommand("serve"),
                                      quire::cli::vllm_spelling(std::move(arguments)));
      if (!expanded.ok()) return quire::cli::report(expanded.status());
      arguments = std::move(expanded).value();
    }
    std::reverse(arguments.begin(), arguments.end());  // the parser takes a vector in this order
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    if (quire::cli::is_bare_call(app, e)) {
      std::cout << app.help();
    } else {
      exit_code = app.exit(e) == 0 ? 0 : 1;
    }
  } catch (const std::exception& e) {  // standard output is full, memory is short …
    fmt::print(stderr, "quire: {}\n", e.what());
    return 1;
  }
  std::cout.flush();  // the parser prints its help there
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("quire: standard output cannot be written\n", stderr);
    return 1;
  }
  return exit_code;
}
