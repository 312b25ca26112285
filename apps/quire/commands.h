// Each verb of the program adds its subcommand with its flags and help to `app`, and sets
// `exit_code` when it has run. An error is one line on standard error and exit code 1.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace quire::cli {

class Settings;

// `settings` must outlive `app`.
void add_serve(CLI::App& app, int& exit_code, const Settings& settings);
void add_chat(CLI::App& app, int& exit_code);
void add_ps(CLI::App& app, int& exit_code);
void add_pull(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_run_batch(CLI::App& app, int& exit_code);
void add_embed(CLI::App& app, int& exit_code);
void add_rerank(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_adapters(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_roofline(CLI::App& app, int& exit_code);
// Their output describes `app` with all verbs that have been added when they run.
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

// Prints "quire: MESSAGE" for an error, and returns the exit code for either outcome.
int report(const Status& status);

}  // namespace quire::cli
