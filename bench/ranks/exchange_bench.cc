// This program measures how long two ranks take to combine a matrix of which each has half of the
// columns. As for the outputs of a layer, a rank copies its columns to the group's memory, the
// ranks meet, and each copies the other's columns back. The time of the copies alone is the bound
// that memory sets. Then it measures how long four ranks take to combine the outputs of experts for
// some tokens, each of which went to eight experts: by all-gather of all rows and by all-to-all,
// without the sums. It prints the median and the 90th and 99th percentile in microseconds:
//
//   quire_exchange_bench [ROUNDS [ROUNDS_WITH_EXPERTS]]
//
// bench/ranks/compare prints the times of Open MPI beside them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "comm/process_ranks.h"
#include "comm/shared_ranks.h"

namespace quire {
namespace {

constexpr int64_t kRowBytes = 16 << 10;  // 4096 floats
constexpr int64_t kRows[] = {1, 4, 16, 64};
constexpr int kWarmUp = 200;

constexpr int64_t kExpertsPerToken = 8;
constexpr int64_t kTokens[] = {1, 16, 128};
constexpr int kExpertRanks = 4;
constexpr int64_t kExpertRowBytes = 8 << 10;  // 2048 floats

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::vector<double> time_combining(RankGroup& ranks, int64_t num_tokens, bool by_all_to_all,
                                   int num_rounds) {
  const int64_t num_rows = num_tokens * kExpertsPerToken;
  std::vector<MatrixRows> rows;
  std::vector<ByteColumns> pieces, columns;
  for (int64_t rank = 0; rank < kExpertRanks; ++rank) {
    rows.push_back({num_rows * rank / kExpertRanks, num_rows * (rank + 1) / kExpertRanks});
    pieces.push_back({rows.back().begin * kExpertRowBytes, rows.back().end * kExpertRowBytes});
    columns.push_back(
        {kExpertRowBytes * rank / kExpertRanks, kExpertRowBytes * (rank + 1) / kExpertRanks});
  }
  std::vector<double> times_us;
  for (int round = 0; round < kWarmUp + num_rounds; ++round) {
    const auto start = Clock::now();
    bool ok = true;
    if (by_all_to_all) {
      ok = ranks.all_to_all(
               {.row_stride_bytes = kExpertRowBytes, .rows = rows, .columns = columns}) &&
           ranks.gather(
               {.row_stride_bytes = kExpertRowBytes, .num_rows = num_tokens, .columns = columns});
    } else {
      ok = ranks.gather(
          {.row_stride_bytes = num_rows * kExpertRowBytes, .num_rows = 1, .columns = pieces});
    }
    QUIRE_CHECK(ok, "{}", ranks.status().message());
    if (round >= kWarmUp) times_us.push_back(us_since(start));
  }
  std::sort(times_us.begin(), times_us.end());
  return times_us;
}

// Memory is aligned like the activations of a model. At 16 bytes behind the start of a page, where
// malloc() puts large blocks, memcpy() from the start of a page takes 17 times as long on Zen 3
// (`rep movsb`).
struct alignas(64) CacheLine {
  std::byte bytes[64];
};

struct RoundTimes {
  std::vector<double> whole_us;
  std::vector<double> copies_us;  // of a round, without the time to meet
};

RoundTimes time_rounds(RankGroup& ranks, int64_t num_rows, int num_rounds) {
  const ByteColumns columns[] = {{0, kRowBytes / 2}, {kRowBytes / 2, kRowBytes}};
  const ByteColumns mine = columns[ranks.rank()], other = columns[1 - ranks.rank()];
  std::vector<CacheLine> memory(static_cast<size_t>(num_rows * kRowBytes) / sizeof(CacheLine));
  std::byte* const own = memory.front().bytes;
  RoundTimes times;
  for (int round = 0; round < kWarmUp + num_rounds; ++round) {
    const auto start = Clock::now();
    std::byte* const shared = ranks.memory().data() + round % 2 * num_rows * kRowBytes;
    const auto copy = [&](const ByteColumns& range, const std::byte* from, std::byte* to) {
      for (int64_t row = 0; row < num_rows; ++row) {
        std::memcpy(to + row * kRowBytes + range.begin, from + row * kRowBytes + range.begin,
                    static_cast<size_t>(range.size()));
      }
    };
    copy(mine, own, shared);
    double copies_us = us_since(start);
    const bool ok = ranks.gather({.offset_bytes = shared - ranks.memory().data(),
                                  .row_stride_bytes = kRowBytes,
                                  .num_rows = num_rows,
                                  .columns = columns});
    QUIRE_CHECK(ok, "{}", ranks.status().message());
    const auto met = Clock::now();
    copy(other, shared, own);
    copies_us += us_since(met);
    if (round < kWarmUp) continue;
    times.whole_us.push_back(us_since(start));
    times.copies_us.push_back(copies_us);
  }
  std::sort(times.whole_us.begin(), times.whole_us.end());
  std::sort(times.copies_us.begin(), times.copies_us.end());
  return times;
}

void print(const std::string& what, int64_t bytes, const std::vector<double>& times_us) {
  const auto at = [&](double share) {
    return times_us[static_cast<size_t>(share * static_cast<double>(times_us.size()))];
  };
  fmt::print("{:<34}{:>8}{:>10.1f}{:>10.1f}{:>10.1f}\n", what, bytes, at(0.5), at(0.9), at(0.99));
}

void measure(const std::string& what, RankGroup& ranks, int num_rounds) {
  for (const int64_t rows : kRows) {
    const RoundTimes times = time_rounds(ranks, rows, num_rounds);
    if (ranks.rank() > 0) continue;
    print(what, rows * kRowBytes, times.whole_us);
    if (what == "shared memory") print("copies alone", rows * kRowBytes, times.copies_us);
  }
}

// Runs some rounds first, because the first measurement of a process is slower than later ones.
void warm_up(const std::string&, RankGroup& ranks, int num_rounds) {
  for (const int64_t rows : kRows) (void)time_rounds(ranks, rows, num_rounds);
}

void measure_experts(const std::string& what, RankGroup& ranks, int num_rounds) {
  for (const int64_t tokens : kTokens) {
    for (const bool by_all_to_all : {false, true}) {
      const auto times = time_combining(ranks, tokens, by_all_to_all, num_rounds);
      if (ranks.rank() > 0) continue;
      print(fmt::format("experts, {}, {}", what, by_all_to_all ? "all-to-all" : "all-gather"),
            tokens * kExpertsPerToken * kExpertRowBytes, times);
    }
  }
}

using Measure = void (*)(const std::string& what, RankGroup& ranks, int num_rounds);

void on_threads(int size, Measure measured, int num_rounds) {
  constexpr int64_t kBytes = kTokens[2] * kExpertsPerToken * kExpertRowBytes;
  auto groups = SharedRanks::create(size, {.memory_bytes = kBytes});
  QUIRE_CHECK(groups.ok(), "{}", groups.status().message());
  std::vector<std::thread> others;
  for (int rank = 1; rank < size; ++rank)
    others.emplace_back(
        [&, rank] { measured("threads", *(*groups)[static_cast<size_t>(rank)], num_rounds); });
  measured("threads", *groups->front(), num_rounds);
  for (std::thread& other : others) other.join();
}

// Runs the measurement with ranks that are linked like processes, over one of the transports.
void on_links(int size, RankTransport transport, Measure measured, int num_rounds) {
  constexpr int64_t kBytes = kTokens[2] * kExpertsPerToken * kExpertRowBytes;
  const std::string what = transport == RankTransport::kTcp ? "TCP on loopback" : "shared memory";
  const auto run = [&](int rank) {
    auto links = RankLinks::join({.rank = rank, .size = size, .port = 29511});
    QUIRE_CHECK(links.ok(), "{}", links.status().message());
    auto joined = join_processes({.links = links->get(), .size = size}, kBytes, transport);
    QUIRE_CHECK(joined.ok(), "{}", joined.status().message());
    measured(what, *joined->group, num_rounds);
    std::byte done{};
    const int64_t deadline_us = deadline_in_ms(10'000);
    if (rank > 0) {
      (void)send_all((*links)->control(0), {&done, 1}, deadline_us);
      (void)receive_all((*links)->control(0), {&done, 1}, deadline_us);  // until the end
      return;
    }
    for (int other = 1; other < size; ++other)
      (void)receive_all((*links)->control(other), {&done, 1}, deadline_us);
    (*links)->end();
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < size; ++rank) others.emplace_back(run, rank);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  const int num_rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5000;
  constexpr auto kFastest = quire::RankTransport::kFastest, kTcp = quire::RankTransport::kTcp;
  fmt::print("{:<34}{:>8}{:>10}{:>10}{:>10}\n", "", "bytes", "p50 us", "p90 us", "p99 us");
  quire::on_threads(2, &quire::warm_up, num_rounds);
  quire::on_threads(2, &quire::measure, num_rounds);
  quire::on_links(2, kFastest, &quire::measure, num_rounds);
  quire::on_links(2, kTcp, &quire::measure, num_rounds);
  const int num_combined = argc > 2 ? std::atoi(argv[2]) : std::max(1, num_rounds / 20);
  if (num_combined <= 0) return 0;
  quire::on_threads(quire::kExpertRanks, &quire::measure_experts, num_combined);
  quire::on_links(quire::kExpertRanks, kTcp, &quire::measure_experts, num_combined);
}
