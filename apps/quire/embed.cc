// `quire embed` prints vectors of texts. `quire rerank` sorts texts by how well they answer a
// query.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "facade/running_llm.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"

namespace quire::cli {
namespace {

struct EmbedFlags {
  EngineArgs engine;
  std::string query;  // of rerank
  std::vector<std::string> texts;
  EmbedOptions options;
  size_t top_n = 0;
  bool prints_speed = false;
  bool as_json = false;
};

// Returns the texts of the command line, or else the lines of standard input.
Result<std::vector<std::string>> texts_of(const EmbedFlags& flags) {
  std::vector<std::string> texts = flags.texts;
  if (texts.empty()) {
    for (std::string line; std::getline(std::cin, line);) {
      if (!line.empty()) texts.push_back(std::move(line));
    }
  }
  if (texts.empty())
    return invalid_argument("expected texts, or lines on standard input; got none");
  for (const std::string& text : texts) {
    if (!is_valid_utf8(text)) return invalid_argument("expected UTF-8 text, got binary data");
  }
  return texts;
}

Status run_embed(const EmbedFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto texts, texts_of(flags));
  QUIRE_ASSIGN_OR_RETURN(const auto llm, load_llm(flags.engine));
  const auto begin = std::chrono::steady_clock::now();
  QUIRE_ASSIGN_OR_RETURN(const auto rows, llm->embed(texts, flags.options));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  for (const std::vector<float>& row : rows) fmt::print("[{}]\n", fmt::join(row, ","));
  if (flags.prints_speed) {
    const uint64_t num_tokens = llm->stats().prompt_tokens;
    fmt::print(stderr, "{} texts, {} tokens in {:.3f} s: {:.1f} texts/s, {:.0f} tokens/s\n",
               texts.size(), num_tokens, seconds.count(),
               static_cast<double>(texts.size()) / seconds.count(),
               static_cast<double>(num_tokens) / seconds.count());
  }
  return {};
}

Status run_rerank(const EmbedFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto texts, texts_of(flags));
  QUIRE_ASSIGN_OR_RETURN(const auto llm, load_llm(flags.engine));
  QUIRE_ASSIGN_OR_RETURN(const auto scores, llm->score(flags.query, texts, flags.options));
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (flags.top_n > 0) order.resize(std::min(order.size(), flags.top_n));
  if (!flags.as_json) {
    for (const size_t i : order) fmt::print("{:.6f}  {}\n", scores[i], texts[i]);
    return {};
  }
  boost::json::array results;
  for (const size_t i : order) {
    results.push_back(
        boost::json::object{{"index", i}, {"relevance_score", scores[i]}, {"text", texts[i]}});
  }
  print_json(boost::json::object{{"results", std::move(results)}});
  return {};
}

void add_common(CLI::App& verb, EmbedFlags& flags) {
  verb.add_flag(
      "--truncate", flags.options.truncate,
      "Truncate texts that are longer than the model allows; without this flag they are refused");
  add_engine_flags(verb, flags.engine);
  flags.engine.hardware = "none";
}

}  // namespace

void add_embed(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "embed",
      "Print the embedding vectors of texts, one JSON list per line (arguments or standard input)");
  auto flags = std::make_shared<EmbedFlags>();
  verb.add_option(
          "MODEL", flags->engine.model,
          "Hugging Face or sentence-transformers directory, or .gguf file, of an embedding model")
      ->required();
  verb.add_option("TEXT", flags->texts, "The texts; default: each line of standard input is one");
  verb.add_option("--dimensions", flags->options.dimensions,
                  "Keep only this many numbers of each vector, from the first (Matryoshka models)")
      ->check(in_range(1, 1 << 20));
  verb.add_flag("--normalize,!--no-normalize", flags->options.normalize,
                "Scale vectors to length 1 if the model does so (default: on)");
  verb.add_option("--task", flags->options.task,
                  "Task of the vectors, for models with adapters for tasks (jina-embeddings-v3: "
                  "retrieval.query, retrieval.passage, separation, classification, text-matching)");
  verb.add_flag("--speed", flags->prints_speed,
                "Print the speed in texts and tokens per second at the end");
  add_common(verb, *flags);
  verb.callback([flags, &exit_code] { exit_code = report(run_embed(*flags)); });
}

void add_rerank(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "rerank", "Print texts with their scores, sorted by how well they answer a query");
  auto flags = std::make_shared<EmbedFlags>();
  verb.add_option("MODEL", flags->engine.model,
                  "Directory or .gguf file of a cross-encoder or an embedding model")
      ->required();
  verb.add_option("QUERY", flags->query, "The query that the texts should answer")->required();
  verb.add_option("TEXT", flags->texts, "The texts; default: each line of standard input is one");
  verb.add_option("--top-n", flags->top_n, "Number of best texts to print; 0: all");
  add_json_flag(verb, flags->as_json);
  add_common(verb, *flags);
  verb.callback([flags, &exit_code] { exit_code = report(run_rerank(*flags)); });
}

}  // namespace quire::cli
