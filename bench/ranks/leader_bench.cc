// This program measures what the first rank's thread spends on sending a step to the other ranks:
// encoding the plan, sending it to all of them through shared memory or over TCP, and applying the
// sampled tokens for the next plan. The other ranks are threads that read frames and ignore them.
// It prints microseconds per step in which every request decodes:
//
//   quire_leader_bench [STEPS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "comm/rank_broadcast.h"
#include "comm/rank_links.h"
#include "ranks/loaded_rank.h"
#include "ranks/plan_codec.h"
#include "ranks/token_relay.h"

namespace quire {
namespace {

constexpr int kNumRequests = 256;
constexpr int kWarmUp = 50;
constexpr uint16_t kPort = 29513;

// The first step contains the requests; later steps add one token to each, and sometimes a block.
StepPlan plan_of(uint64_t step) {
  StepPlan plan;
  plan.step_id = step;
  for (int32_t i = 0; i < kNumRequests; ++i) {
    const RequestId id(static_cast<uint64_t>(i) + 1);
    if (step == 0) {
      NewRequest request{
          .id = id, .token_ids = std::vector<TokenId>(64, 7), .num_prompt_tokens = 64};
      request.params = std::make_shared<SamplingParams>();
      plan.new_requests.push_back(std::move(request));
    }
    plan.scheduled.push_back({.id = id,
                              .num_computed_tokens = static_cast<int32_t>(63 + step),
                              .num_scheduled_tokens = 1});
    if ((step + static_cast<uint64_t>(i)) % 16 == 0)
      plan.block_updates.push_back({.request_index = i, .logical_index = 5, .block = BlockId(i)});
  }
  plan.total_num_scheduled_tokens = kNumRequests;
  return plan;
}

StepResult result_of(const StepPlan& plan) {
  StepResult result{.step_id = plan.step_id, .requests = {}, .execute_us = 0, .timings = {}};
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    RequestStepResult& request = result.requests.emplace_back();
    request.id = scheduled.id;
    request.sampled_token_ids = {11};
  }
  return result;
}

struct Times {
  std::vector<double> wall_us, cpu_us;

  static double at(std::vector<double>& times, double share) {
    std::sort(times.begin(), times.end());
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  }
};

double cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

Times lead(RankBroadcast& broadcast, int num_steps) {
  Times times;
  TokenRelay relay;
  std::vector<std::byte> message;
  for (int step = 0; step < kWarmUp + num_steps; ++step) {
    const StepPlan plan = plan_of(static_cast<uint64_t>(step));
    const StepResult result = result_of(plan);
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start_us = cpu_us();
    const uint64_t number = relay.add_step(plan);
    encode_step(relay.take(), plan, {}, message);
    const Status sent = broadcast.send(static_cast<uint32_t>(RankFrame::kStep), message);
    QUIRE_CHECK(sent.ok(), "{}", sent.message());
    relay.add_result(number, result);
    const double cpu_end_us = cpu_us();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    // The other ranks read their frames in this time, as they do while a step is computed.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (step < kWarmUp) continue;
    times.wall_us.push_back(took.count());
    times.cpu_us.push_back(cpu_end_us - cpu_start_us);
  }
  return times;
}

void measure(int num_ranks, RankTransport transport, int num_steps) {
  const auto run = [&](int rank) {
    auto links = RankLinks::join({.rank = rank, .size = num_ranks, .port = kPort});
    QUIRE_CHECK(links.ok(), "{}", links.status().message());
    auto broadcast = RankBroadcast::join(**links, transport);
    QUIRE_CHECK(broadcast.ok(), "{}", broadcast.status().message());
    if (rank > 0) {
      for (Frame frame; (*broadcast)->receive(frame).ok();) {
        if (frame.kind == static_cast<uint32_t>(RankFrame::kEnd)) return;
      }
      return;
    }
    Times times = lead(**broadcast, num_steps);
    fmt::print("{:<15}{:>6}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n",
               transport == RankTransport::kTcp ? "TCP" : "shared memory", num_ranks,
               Times::at(times.wall_us, 0.5), Times::at(times.wall_us, 0.99),
               Times::at(times.cpu_us, 0.5), Times::at(times.cpu_us, 0.99));
    (*links)->end();
    (void)(*broadcast)->send(static_cast<uint32_t>(RankFrame::kEnd), {});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < num_ranks; ++rank) others.emplace_back(run, rank);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  const int num_steps = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1000;
  fmt::print("{:<15}{:>6}{:>10}{:>10}{:>10}{:>10}\n", "", "ranks", "p50 us", "p99 us", "cpu p50",
             "cpu p99");
  for (const auto transport : {quire::RankTransport::kFastest, quire::RankTransport::kTcp}) {
    for (const int num_ranks : {2, 4, 8}) quire::measure(num_ranks, transport, num_steps);
  }
}
