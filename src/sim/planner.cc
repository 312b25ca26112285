#include "sim/planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/fleet/block_merging.h"

namespace quire::sim {
namespace {

struct Settings {
  const Hardware* hardware = nullptr;
  int32_t tp = 0;
  int32_t batched_tokens = 0;
  int32_t seqs = 0;
  NumberFormat kv;
  int32_t num_drafts = 0;
};

std::vector<Settings> settings_of(const PlanOptions& options) {
  std::vector<Settings> all;
  std::vector<NumberFormat> kv_formats = options.kv_formats;
  if (kv_formats.empty()) kv_formats.push_back(options.base.model.kv);
  for (const Hardware& hardware : options.hardware) {
    for (const int32_t tp : options.tensor_parallel) {
      if (tp > options.max_devices || !Parallelism{.tp = tp}.validate(options.base.model).ok()) {
        continue;
      }
      for (const int32_t tokens : options.max_num_batched_tokens) {
        for (const int32_t seqs : options.max_num_seqs) {
          for (const NumberFormat& kv : kv_formats) {
            for (const int32_t num_drafts : options.num_speculative_tokens) {
              all.push_back({.hardware = &hardware,
                             .tp = tp,
                             .batched_tokens = tokens,
                             .seqs = seqs,
                             .kv = kv,
                             .num_drafts = num_drafts});
            }
          }
        }
      }
    }
  }
  return all;
}

class Search {
 public:
  Search(const Workload& workload, const PlanOptions& options,
         const std::function<void(const PlanProgress&)>& progress)
      : workload_(workload), options_(options), progress_(progress) {}

  void run_all() {
    const std::vector<Settings> all = settings_of(options_);
    num_candidates_ = static_cast<int32_t>(all.size());
    for (const Settings& settings : all) add(settings);
  }

  DeploymentPlan plan;

 private:
  struct Trial {
    bool good = false;
    Summary summary;
    Status status;
  };

  void add(const Settings& settings) {
    PlanCandidate candidate{.hardware = settings.hardware->name,
                            .tensor_parallel = settings.tp,
                            .max_num_batched_tokens = settings.batched_tokens,
                            .max_num_seqs = settings.seqs,
                            .kv_format = std::string(name_of(settings.kv)),
                            .num_speculative_tokens = settings.num_drafts};
    PoolOptions pool = options_.base;
    pool.hardware = *settings.hardware;
    pool.model.kv = settings.kv;
    pool.parallelism = {.tp = settings.tp};
    pool.engine.scheduler.max_num_batched_tokens = settings.batched_tokens;
    pool.engine.scheduler.num_speculative_tokens = settings.num_drafts;
    pool.engine.scheduler.max_num_seqs = std::min(settings.seqs, settings.batched_tokens);
    Result<PoolSpec> made = make_pool(pool);
    if (made.ok()) {
      FleetSpec spec{.pools = {std::move(made).value()},
                     .router = options_.router,
                     .admission_ns = options_.admission_ns,
                     .memory_bytes = options_.memory_bytes};
      if (options_.merge_blocks) merge_blocks(workload_, spec);
      search(spec, candidate);
    } else {
      candidate.obstacle = made.status().message();
    }
    plan.candidates.push_back(std::move(candidate));
  }

  Trial simulate(FleetSpec& spec, int32_t num_replicas, const PlanCandidate& candidate) {
    spec.pools[0].num_replicas = num_replicas;
    if (progress_) {
      progress_({.num_done = static_cast<int32_t>(plan.candidates.size()),
                 .num_candidates = num_candidates_,
                 .what = fmt::format("{} tp {} {}/{}: {} replicas", candidate.hardware,
                                     candidate.tensor_parallel, candidate.max_num_batched_tokens,
                                     candidate.max_num_seqs, num_replicas)});
    }
    ++plan.num_simulations;
    Trial trial;
    Result<RunResult> result = run(workload_, spec);
    trial.status = result.status();
    if (!result.ok()) return trial;
    trial.summary = summarize(spec, *result, options_.limits);
    trial.good = trial.summary.good_share >= options_.good_share && meets_figures(trial.summary) &&
                 trial.summary.verdict != Verdict::kOverloaded;
    return trial;
  }

  void search(FleetSpec& spec, PlanCandidate& candidate) {
    const int32_t per_replica = spec.pools[0].devices_per_replica;
    const int32_t most = options_.max_devices / per_replica;
    int32_t bad = 0, good = 0;
    Trial best, failed;
    for (int32_t n = 1; n <= most && good == 0; n = std::min(2 * n, std::max(most, n + 1))) {
      Trial trial = simulate(spec, n, candidate);
      if (!trial.status.ok()) {
        candidate.obstacle = trial.status.message();
        return;
      }
      (trial.good ? good : bad) = n;
      (trial.good ? best : failed) = std::move(trial);
    }
    if (good == 0) {
      candidate.summary = std::move(failed.summary);
      candidate.obstacle = most < 1 ? fmt::format("needs {} devices", per_replica)
                                    : shortfall(candidate.summary, bad);
      return;
    }
    while (good - bad > 1) {
      const int32_t middle = bad + (good - bad) / 2;
      Trial trial = simulate(spec, middle, candidate);
      (trial.good ? good : bad) = middle;
      (trial.good ? best : failed) = std::move(trial);
    }
    candidate.num_replicas = good;
    candidate.num_devices = good * per_replica;
    candidate.dollars_per_hour = candidate.num_devices * spec.pools[0].price_per_device_hour;
    candidate.summary = std::move(best.summary);
    candidate.why_not_fewer =
        bad == 0 ? "one replica is the least" : shortfall(failed.summary, bad);
  }

  // Returns one line that says which limits a deployment misses.
  std::string shortfall(const Summary& s, int32_t num_replicas) const {
    std::string text = fmt::format("{} replica{}: {:.1f} % of requests good", num_replicas,
                                   num_replicas == 1 ? "" : "s", 100 * s.good_share);
    const auto add = [&text](const char* name, const std::optional<double>& limit,
                             const Percentiles& p, const Misses& misses) {
      if (!limit || misses.num_missed == 0) return;
      const auto largest = std::max_element(misses.by_cause.begin(), misses.by_cause.end());
      text += fmt::format(", {} p99 {:.0f} of {:g} ms ({})", name, p.p99, *limit,
                          to_string(static_cast<Cause>(largest - misses.by_cause.begin())));
    };
    add("TTFT", s.limits.ttft_ms, s.ttft_ms, s.ttft_misses);
    add("TPOT", s.limits.tpot_ms, s.tpot_ms, s.tpot_misses);
    add("E2E", s.limits.e2e_ms, s.e2e_ms, s.e2e_misses);
    for (const FigureLimit& limit : s.limits.figures) {
      const double ms = figure_ms(s, limit);
      if (ms <= limit.ms) continue;
      text += fmt::format(", {} {} {:.0f} of {:g} ms", to_string(limit.statistic),
                          to_string(limit.metric), ms, limit.ms);
    }
    if (s.verdict == Verdict::kOverloaded) text += ", overloaded: " + s.verdict_reason;
    return text;
  }

  const Workload& workload_;
  const PlanOptions& options_;
  const std::function<void(const PlanProgress&)>& progress_;
  int32_t num_candidates_ = 0;
};

double price_of(const PlanCandidate& c, PlanObjective objective) {
  return objective == PlanObjective::kDevices ? c.num_devices : c.dollars_per_hour;
}

void mark_frontier(std::vector<PlanCandidate>& candidates, PlanObjective objective) {
  for (PlanCandidate& c : candidates) {
    if (c.num_replicas == 0) continue;
    c.on_frontier = std::none_of(candidates.begin(), candidates.end(), [&](const auto& other) {
      if (other.num_replicas == 0) return false;
      const double a = price_of(other, objective), b = price_of(c, objective);
      const Summary &x = other.summary, &y = c.summary;
      const bool no_worse =
          a <= b && x.ttft_ms.p99 <= y.ttft_ms.p99 && x.tpot_ms.p99 <= y.tpot_ms.p99;
      return no_worse && (a < b || x.ttft_ms.p99 < y.ttft_ms.p99 || x.tpot_ms.p99 < y.tpot_ms.p99);
    });
  }
}

}  // namespace

Result<DeploymentPlan> plan_deployment(const Workload& workload, const PlanOptions& options,
                                       const std::function<void(const PlanProgress&)>& progress) {
  if (!options.limits.any()) {
    return invalid_argument("plan: expected SLOs, for example ttft:500 tpot:50");
  }
  if (options.hardware.empty() || options.tensor_parallel.empty() ||
      options.max_num_batched_tokens.empty() || options.max_num_seqs.empty() ||
      options.max_devices < 1 || !(options.good_share > 0 && options.good_share <= 1)) {
    return invalid_argument(
        "plan: expected hardware, at least 1 device and a share of good requests in (0, 1]");
  }
  if (workload.closed_loop) {
    return invalid_argument("plan: expected a workload with arrivals, got a closed loop");
  }
  if (options.objective == PlanObjective::kDollars) {
    for (const Hardware& hardware : options.hardware) {
      if (hardware.price_per_hour > 0) continue;
      return invalid_argument("plan: expected a price of {} to look for the cheapest",
                              hardware.name);
    }
  }
  Search search(workload, options, progress);
  search.run_all();
  std::vector<PlanCandidate>& candidates = search.plan.candidates;
  mark_frontier(candidates, options.objective);
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    const auto key = [&](const PlanCandidate& c) {
      return std::tuple(c.num_replicas == 0, price_of(c, options.objective),
                        c.num_replicas == 0 ? -c.summary.good_share : c.summary.ttft_ms.p99);
    };
    return key(a) < key(b);
  });
  return std::move(search.plan);
}

}  // namespace quire::sim
