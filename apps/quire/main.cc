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

int main(int argc, char** argv) {
  CLI::App app{
      "Quire runs open-weight language models: in a terminal, for OpenAI clients, in your "
      "program.\n"
      "MODEL is a Hugging Face directory, a .gguf file, or nothing for the built-in model, a "
      "demo of 3.5 million parameters.\n\n"
      "  quire chat                       talk to the built-in model\n"
      "  quire serve /models/qwen3-0.6b   OpenAI API and web page on port 8000\n"
      "  quire inspect /models/qwen3-0.6b what it is and whether it fits here\n"};
  app.name("quire");
  app.set_version_flag("--version", quire::version_text());
  app.require_subcommand(1);
  app.formatter(std::make_shared<quire::cli::HelpFormatter>());
  app.failure_message(quire::cli::failure_line);

  int exit_code = 0;
  quire::cli::Settings settings;
  quire::cli::add_serve(app, exit_code, settings);
  quire::cli::add_route(app, exit_code);
  quire::cli::add_chat(app, exit_code);
  quire::cli::add_ps(app, exit_code);
  quire::cli::add_pull(app, exit_code);
  quire::cli::add_generate(app, exit_code);
  quire::cli::add_run_batch(app, exit_code);
  quire::cli::add_embed(app, exit_code);
  quire::cli::add_rerank(app, exit_code);
  quire::cli::add_tokenize(app, exit_code);
  quire::cli::add_inspect(app, exit_code);
  quire::cli::add_adapters(app, exit_code);
  quire::cli::add_quantize(app, exit_code);
  quire::cli::add_bench(app, exit_code);
  quire::cli::add_simulate(app, exit_code);
  quire::cli::add_plan(app, exit_code);
  quire::cli::add_compare(app, exit_code);
  quire::cli::add_roofline(app, exit_code);
  quire::cli::add_completion(app);
  quire::cli::add_man(app);
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
