#include "fetch/pull.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <utility>

#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/terminal.h"

namespace quire::cli {
namespace {

namespace json = boost::json;

// The exit code that shells give a program that Ctrl-C ended.
constexpr int kExitInterrupted = 130;

struct PullFlags {
  fetch::PullOptions options;
  bool no_checksum = false;
  bool as_json = false;
  int64_t connect_timeout_s = 10;
  int64_t quiet_timeout_s = 30;
};

void print_pulled_json(const fetch::PulledModel& model) {
  json::array files;
  for (const fetch::PulledFile& file : model.files) {
    files.push_back(
        json::object{{"name", file.name}, {"bytes", file.size_bytes}, {"sha256", file.sha256}});
  }
  const json::object out{{"name", model.name},
                         {"path", model.path},
                         {"was_there", model.was_there},
                         {"files", std::move(files)}};
  fmt::print("{}\n", json::serialize(out));
}

void print_text(const fetch::PulledModel& model, const std::string& directory) {
  uint64_t bytes = 0;
  for (const fetch::PulledFile& file : model.files) bytes += file.size_bytes;
  fmt::print("{}: {} {} of {} MiB{}\n", model.path, model.files.size(),
             model.files.size() == 1 ? "file" : "files", bytes >> 20,
             model.was_there ? " were already there with these checksums" : "");
  fmt::print("serve it with: quire serve {}, or quire serve --models-dir {} as the model {}\n",
             model.path, directory, model.name);
}

int run_pull(PullFlags& flags) {
  fetch::PullOptions& options = flags.options;
  options.needs_checksum = !flags.no_checksum;
  options.connect_timeout_ms = flags.connect_timeout_s * 1000;
  options.quiet_timeout_ms = flags.quiet_timeout_s * 1000;
  options.on_progress = [bar = progress_bar("pulling", /*always=*/true)](uint64_t done,
                                                                         uint64_t total) {
    if (total > 0) bar(static_cast<int64_t>(std::min(done, total)), static_cast<int64_t>(total));
  };
  options.on_note = [](const std::string& sentence) { fmt::print(stderr, "\n{}\n", sentence); };
  catch_interrupts();
  options.is_stopped = [] { return interrupted(); };
  const Result<fetch::PulledModel> model = fetch::pull(options);
  if (model.status().code() == StatusCode::kCancelled) {
    fmt::print(stderr,
               "\nquire: stopped; the received data is kept; run the same command to continue\n");
    return kExitInterrupted;
  }
  if (!model.ok()) return report(model.status());
  if (flags.as_json) {
    print_pulled_json(*model);
  } else {
    print_text(*model, options.directory);
  }
  return 0;
}

void add_checksum_flags(CLI::App& verb, PullFlags& flags) {
  verb.add_option("--sha256", flags.options.sha256,
                  "Expected SHA-256 of the file; for a folder, that of its SHA256SUMS")
      ->type_name("HEX");
  verb.add_option("--checksums", flags.options.checksums_file,
                  "File with lines 'HEX  NAME', as sha256sum writes them; default: the folder's "
                  "own SHA256SUMS")
      ->type_name("FILE");
  verb.add_flag("--no-checksum", flags.no_checksum, "Accept files from a URL without a checksum");
}

}  // namespace

void add_pull(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "pull", "Get a model from a folder or URL that you name, and check it by SHA-256");
  auto flags = std::make_shared<PullFlags>();
  fetch::PullOptions& options = flags->options;
  verb.add_option("SOURCE", options.source,
                  "A folder or a .gguf file, or the http, https or file URL of one. The URL of a "
                  "folder ends with /, and the folder contains SHA256SUMS")
      ->required();
  add_checksum_flags(verb, *flags);
  verb.add_option(
          "--to", options.directory,
          "Folder in which the model is stored: the folder that quire serve --models-dir reads")
      ->type_name("DIR")
      ->capture_default_str();
  verb.add_option("--name", options.name,
                  "Name of the model in that folder; default: the last part of SOURCE");
  verb.add_option("--ca-file", options.ca_file,
                  "PEM file with the authorities that sign the certificates of https servers; "
                  "default: the system's")
      ->type_name("FILE");
  verb.add_option("--retries", options.max_retries,
                  "How often a file is requested again without progress")
      ->check(in_range(0, 100))
      ->capture_default_str();
  verb.add_option("--max-redirects", options.max_redirects,
                  "Largest number of redirects of one request")
      ->check(in_range(0, 20))
      ->capture_default_str();
  verb.add_option("--connect-timeout", flags->connect_timeout_s, "Seconds to connect to a server")
      ->check(in_range(1, 3600))
      ->capture_default_str();
  verb.add_option("--read-timeout", flags->quiet_timeout_s,
                  "Seconds without a byte after which quire connects again")
      ->check(in_range(1, 3600))
      ->capture_default_str();
  verb.add_flag("--json", flags->as_json, "Print one line of JSON that lists the files");
  verb.callback([flags, &exit_code] { exit_code = run_pull(*flags); });
}

}  // namespace quire::cli
