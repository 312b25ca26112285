// `quire bench speculation` runs the same work with and without drafts, in turn, on one engine.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdio>

#include "draft/suffix_drafter.h"
#include "facade/model_bundle.h"
#include "quire/bench/commands.h"
#include "quire/bench/engine_load.h"
#include "quire/bench/speculation_work.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

struct SpeculationFlags {
  EngineArgs engine;
  std::string dataset;
  std::string filter;
  int32_t num_tokens = 512;
  int32_t num_streams = 32;
  int32_t num_repeats = 5;
  uint64_t seed = 0;
  double acceptance = -1;
  bool as_json = false;
};

struct Run {
  double decode_s = 0;
  int64_t num_tokens = 0;
  DraftCounts drafts;
};

// Measures from the moment when all streams have their first token to the last token of all,
// because prompts take the same time with and without drafts.
Result<Run> run_streams(AsyncEngine& engine, std::vector<GenerationRequest> requests) {
  const Clock& clock = engine.clock();
  Run run;
  std::vector<std::unique_ptr<OutputStream>> streams;
  for (GenerationRequest& request : requests) {
    request.arrival_us = clock.now_us();
    QUIRE_ASSIGN_OR_RETURN(auto stream, engine.submit(std::move(request), [] {}));
    streams.push_back(std::move(stream));
  }
  int64_t first_us = 0;
  int64_t last_us = 0;
  for (const auto& stream : streams) {
    while (const auto delta = stream->pop()) {
      if (!delta->status.ok()) return delta->status;
      run.num_tokens += static_cast<int64_t>(delta->token_ids.size());
      run.drafts.add(delta->drafts);
      if (!delta->times) continue;
      first_us = std::max(first_us, delta->times->first_token_us);
      last_us = std::max(last_us, delta->times->last_token_us);
    }
  }
  run.decode_s = static_cast<double>(last_us - first_us) * 1e-6;
  return run;
}

// Runs all streams together, or those of a file one after the other. Each run has a cache salt of
// its own, so that it does not draft from the answers of earlier runs. Its prompts are computed
// first.
Result<Run> run_work(const RunningModel& model, const SpeculationWork& work, bool drafts,
                     int32_t max_tokens, const std::string& salt) {
  Run sum;
  const auto num_streams = static_cast<size_t>(work.num_streams);
  const int32_t vocab_size = model.engine->model_info().vocab_size;
  for (size_t begin = 0; begin < work.prompts.size(); begin += num_streams) {
    std::vector<GenerationRequest> prompts, requests;
    for (size_t i = begin; i < std::min(begin + num_streams, work.prompts.size()); ++i) {
      requests.push_back(
          work_request(work, i, drafts, vocab_size, max_tokens, model.engine->clock()));
      requests.back().cache_keys.salt = salt;
      prompts.push_back(requests.back());
      prompts.back().params.max_tokens = 1;
    }
    QUIRE_RETURN_IF_ERROR(run_streams(*model.engine, std::move(prompts)).status());
    QUIRE_ASSIGN_OR_RETURN(const Run run, run_streams(*model.engine, std::move(requests)));
    sum.decode_s += run.decode_s;
    sum.num_tokens += run.num_tokens;
    sum.drafts.add(run.drafts);
  }
  return sum;
}

struct WorkFigures {
  double tokens_per_s_without = 0, tokens_per_s_with = 0, ratio = 0;  // medians of the pairs
  double drafts_per_token = 0, accepted_share = 0;                    // of the last run
};

Result<WorkFigures> measure(const SpeculationFlags& flags, const RunningModel& model,
                            const SpeculationWork& work) {
  std::vector<double> ratios, without, with;
  Run last;
  for (int32_t i = -1; i < flags.num_repeats; ++i) {  // the first is a warm-up
    Run off, on;
    // The two runs take turns at going first, so that a drift of the machine favours neither.
    for (const bool drafts : {i % 2 == 0, i % 2 != 0}) {
      const std::string salt = fmt::format("{} of {} {}", work.name, i, drafts);
      Run& run = drafts ? on : off;
      QUIRE_ASSIGN_OR_RETURN(run, run_work(model, work, drafts, flags.num_tokens, salt));
    }
    if (on.num_tokens != off.num_tokens) {
      return internal_error("{}: {} tokens with drafts, {} without", work.name, on.num_tokens,
                            off.num_tokens);
    }
    if (i < 0) continue;
    without.push_back(static_cast<double>(off.num_tokens) / off.decode_s);
    with.push_back(static_cast<double>(on.num_tokens) / on.decode_s);
    ratios.push_back(off.decode_s / on.decode_s);
    last = on;
  }
  const DraftCounts& drafts = last.drafts;
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  return WorkFigures{.tokens_per_s_without = median(without),
                     .tokens_per_s_with = median(with),
                     .ratio = median(ratios),
                     .drafts_per_token = share(drafts.num_drafts, last.num_tokens),
                     .accepted_share = share(drafts.num_accepted, drafts.num_drafts)};
}

void print_work(const SpeculationWork& work, const WorkFigures& figures) {
  fmt::print("{:<16} {:>7} {:>12.1f} {:>12.1f} {:>7.2f} {:>12.2f} {:>11.0f}\n", work.name,
             work.num_streams, figures.tokens_per_s_without, figures.tokens_per_s_with,
             figures.ratio, figures.drafts_per_token, 100 * figures.accepted_share);
  std::fflush(stdout);  // a kind of work takes minutes
}

json::object to_json(const SpeculationWork& work, const WorkFigures& figures) {
  return {{"work", work.name},
          {"streams", work.num_streams},
          {"tokens_per_s_without", figures.tokens_per_s_without},
          {"tokens_per_s_with", figures.tokens_per_s_with},
          {"ratio", figures.ratio},
          {"drafts_per_token", figures.drafts_per_token},
          {"accepted_share", figures.accepted_share}};
}

constexpr size_t kDrafterContext = 8192;

struct DrafterFigures {
  double us_a_step = 0;
  double kb_a_token = 0;
};

// Measures the time and memory of the suffix drafter alone, for a request whose text repeats
// `part`.
DrafterFigures measure_suffix_drafter(const std::vector<TokenId>& part) {
  constexpr size_t kSteps = 2048;
  Request request;
  request.id = RequestId(1);
  request.num_prompt_tokens = kDrafterContext;
  const auto next_token = [&] {
    // Every second part is repeated exactly; in the others each token id is shifted by the part's
    // number.
    const size_t at = request.token_ids.size();
    const auto shift = static_cast<TokenId>(at / part.size() % 2 == 0 ? 0 : at / part.size());
    request.token_ids.push_back(part[at % part.size()] + shift);
  };
  while (request.token_ids.size() < kDrafterContext) next_token();
  SuffixDrafter drafter({});
  DraftQuery query{.request = &request, .max_drafts = 24};
  drafter.propose({&query, 1});
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kSteps; ++i) {
    next_token();
    drafter.propose({&query, 1});
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return {.us_a_step = took.count() / kSteps,
          .kb_a_token = static_cast<double>(drafter.memory_bytes()) * 1e-3 /
                        static_cast<double>(request.token_ids.size())};
}

// Returns the work that the flags ask for, which is never empty.
Result<std::vector<SpeculationWork>> work_of(const SpeculationFlags& flags,
                                             const RunningModel& model) {
  const int32_t vocab_size = model.engine->model_info().vocab_size;
  std::vector<SpeculationWork> works =
      made_up_work(vocab_size, flags.num_tokens, flags.num_streams, flags.seed);
  if (!flags.dataset.empty()) {
    if (model.bundle.tokenizer == nullptr)
      return invalid_argument("--dataset: expected a model with a tokenizer");
    QUIRE_ASSIGN_OR_RETURN(std::vector<SpeculationWork> more,
                           read_work(flags.dataset, *model.bundle.tokenizer, flags.num_tokens));
    std::move(more.begin(), more.end(), std::back_inserter(works));
  }
  if (flags.acceptance >= 0) {
    works = work_of_acceptance(flags.acceptance, vocab_size, flags.num_tokens, flags.num_streams,
                               flags.seed);
  }
  std::erase_if(works, [&](const SpeculationWork& work) {
    return work.name.find(flags.filter) == std::string::npos;
  });
  if (works.empty())
    return invalid_argument("--filter: no work's name contains '{}'", flags.filter);
  return works;
}

Status run_speculation(SpeculationFlags& flags) {
  if (flags.engine.speculative_config.empty())
    flags.engine.speculative_config = R"({"method":"suffix"})";
  flags.engine.engine.log_interval_us = 0;
  flags.engine.engine.scheduler.max_model_len = 2 * flags.num_tokens + 64;
  QUIRE_ASSIGN_OR_RETURN(const RunningModel model, start_model(flags.engine));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SpeculationWork> works, work_of(flags, model));
  if (!flags.as_json) {
    fmt::print("{}, {}: decode speed, medians of {} pairs of runs without and with drafts\n",
               model.bundle.name, flags.engine.speculative_config, flags.num_repeats);
    fmt::print("{:<16} {:>7} {:>12} {:>12} {:>7} {:>12} {:>11}\n", "work", "streams",
               "tokens/s off", "on", "ratio", "drafts/token", "accepted %");
  }
  json::array rows;
  for (const SpeculationWork& work : works) {
    QUIRE_ASSIGN_OR_RETURN(const WorkFigures figures, measure(flags, model, work));
    if (flags.as_json) {
      rows.push_back(to_json(work, figures));
    } else {
      print_work(work, figures);
    }
  }
  const DrafterFigures drafter = measure_suffix_drafter(works.front().prompts.front());
  if (flags.as_json) {
    cli::print_json(
        json::object{{"model", model.bundle.name},
                     {"speculative_config", flags.engine.speculative_config},
                     {"num_repeats", flags.num_repeats},
                     {"work", std::move(rows)},
                     {"suffix_drafter", json::object{{"context", kDrafterContext},
                                                     {"us_a_step", drafter.us_a_step},
                                                     {"kb_a_token", drafter.kb_a_token}}}});
    return {};
  }
  fmt::print("suffix drafter at {} tokens: {:.2f} us per request and step, {:.2f} KB per token\n",
             kDrafterContext, drafter.us_a_step, drafter.kb_a_token);
  return {};
}

}  // namespace

void add_speculation(CLI::App& bench, int& exit_code) {
  CLI::App& verb = *bench.add_subcommand(
      "speculation", "Measure the same work with and without drafts, in turn, in one process");
  auto flags = std::make_shared<SpeculationFlags>();
  cli::add_model_argument(verb, flags->engine);
  cli::add_engine_flags(verb, flags->engine);
  verb.add_option(
      "--shape", flags->engine.shape,
      "Use random weights instead of MODEL: in a named shape, or in the shape of a config.json");
  verb.add_option("--dataset", flags->dataset,
                  "File of JSON lines {\"name\", \"prompt\", \"answer\"}; answers are forced; "
                  "without one the model answers itself");
  verb.add_option("--acceptance", flags->acceptance,
                  "Measure only random prompts, and accept each draft with this probability, "
                  "whatever the model samples (for drafters with random weights)")
      ->check(CLI::Range(0.0, 1.0));
  verb.add_option("--filter", flags->filter, "Measure only work whose name contains this text");
  verb.add_option("--num-tokens", flags->num_tokens,
                  "Largest number of tokens of a prompt, and of an answer")
      ->check(cli::at_least(16))
      ->capture_default_str();
  verb.add_option("--num-streams", flags->num_streams,
                  "Number of streams in the runs with several streams")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--num-repeats", flags->num_repeats, "Number of pairs of runs")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--seed", flags->seed, "Seed of the random texts")->capture_default_str();
  cli::add_json_flag(verb, flags->as_json);
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_speculation(*flags)); });
}

}  // namespace quire::bench
