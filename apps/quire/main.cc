// quire: serve, chat with, run, look into and measure open-weight language models.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <iostream>

#include "quire/commands.h"
#include "quire/version.h"

namespace {

// The parser's own messages in the words of ours: what was expected, what came.
std::string in_our_words(const std::string& text) {
  const auto between = [&](std::string_view before, std::string_view after) {
    const size_t begin = text.find(before) + before.size();
    return text.substr(begin, text.find(after, begin) - begin);
  };
  constexpr std::string_view kConvert = "Could not convert: ";
  constexpr std::string_view kEquals = " = ";
  if (text.starts_with(kConvert) && text.find(kEquals) != text.npos) {
    return between(kConvert, kEquals) + ": expected a number, got " +
           text.substr(text.find(kEquals) + kEquals.size());
  }
  constexpr std::string_view kRequired = " required ";
  if (text.ends_with(" missing") && text.find(kRequired) != text.npos) {
    return text.substr(0, text.find(':')) + ": expected a value, got none";
  }
  for (const std::string_view extra : {"The following argument was not expected: ",
                                       "The following arguments were not expected: "}) {
    if (text.starts_with(extra)) return "unknown argument " + text.substr(extra.size());
  }
  return text;
}

// One line, as for every other error.
std::string failure_line(const CLI::App* app, const CLI::Error& error) {
  std::string text = in_our_words(error.what());
  if (text.rfind("A subcommand is required", 0) == 0) {
    const std::vector<std::string> unknown = app->remaining(true);
    const bool inside = !app->get_subcommands().empty();
    text = unknown.empty() ? "expected a verb" : "expected a verb, got '" + unknown.front() + "'";
    if (inside) text = app->get_subcommands().front()->get_name() + ": " + text;
  }
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return "quire: " + text + "; see --help\n";
}

}  // namespace

int main(int argc, char** argv) {
  // Standard output belongs to answers and tables; the log goes to standard error.
  spdlog::set_default_logger(spdlog::stderr_color_mt("quire"));
  spdlog::set_level(spdlog::level::warn);  // serve says more
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");

  CLI::App app{
      "Quire runs open-weight language models: in a terminal, for OpenAI clients, in your "
      "program.\n"
      "MODEL is a Hugging Face directory, a .gguf file, or nothing for the small built-in "
      "model.\n\n"
      "  quire chat                       talk to the built-in model\n"
      "  quire serve /models/qwen3-0.6b   OpenAI API and web page on port 8000\n"
      "  quire inspect /models/qwen3-0.6b what it is and whether it fits here\n"};
  app.name("quire");
  app.set_version_flag("--version", std::string("quire ") + quire::kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(42);
  app.failure_message(failure_line);

  int exit_code = 0;
  quire::cli::add_serve(app, exit_code);
  quire::cli::add_chat(app, exit_code);
  quire::cli::add_generate(app, exit_code);
  quire::cli::add_tokenize(app, exit_code);
  quire::cli::add_inspect(app, exit_code);
  quire::cli::add_quantize(app, exit_code);
  quire::cli::add_bench(app, exit_code);
  quire::cli::add_simulate(app, exit_code);
  quire::cli::add_plan(app, exit_code);
  quire::cli::add_compare(app, exit_code);
  quire::cli::add_roofline(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    exit_code = app.exit(e) == 0 ? 0 : 1;
  } catch (const std::exception& e) {  // of a library: standard output is full, memory is short
    fmt::print(stderr, "quire: {}\n", e.what());
    return 1;
  }
  std::cout.flush();  // where the parser prints its help
  if (!std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fputs("quire: standard output cannot be written\n", stderr);
    return 1;
  }
  return exit_code;
}
