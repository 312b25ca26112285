// How long two ranks take to put a matrix together, of which each has half of the columns: the columns
// are copied to the group's memory, the ranks meet, and the other's columns are copied back, as the
// outputs of a layer are. Median, 90th and 99th percentile in microseconds:
//
//   quire_exchange_bench [ROUNDS]
//
// bench/ranks/compare prints those of Open MPI beside them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "comm/shared_ranks.h"
#include "comm/tcp_ranks.h"

namespace quire {
namespace {

constexpr int64_t kRowBytes = 16 << 10;  // 4096 floats
constexpr int64_t kRows[] = {1, 4, 16};
constexpr int kWarmUp = 200;

std::vector<double> time_rounds(RankGroup& ranks, int64_t num_rows, int num_rounds) {
  const ByteColumns columns[] = {{0, kRowBytes / 2}, {kRowBytes / 2, kRowBytes}};
  const ByteColumns mine = columns[ranks.rank()], other = columns[1 - ranks.rank()];
  std::vector<std::byte> own(static_cast<size_t>(num_rows * kRowBytes));
  std::vector<double> times_us;
  for (int round = 0; round < kWarmUp + num_rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::byte* const shared = ranks.memory().data() + round % 2 * num_rows * kRowBytes;
    const auto copy = [&](const ByteColumns& range, const std::byte* from, std::byte* to) {
      for (int64_t row = 0; row < num_rows; ++row) {
        std::memcpy(to + row * kRowBytes + range.begin, from + row * kRowBytes + range.begin,
                    static_cast<size_t>(range.size()));
      }
    };
    copy(mine, own.data(), shared);
    const bool ok = ranks.gather({.offset_bytes = shared - ranks.memory().data(),
                                  .row_stride_bytes = kRowBytes,
                                  .num_rows = num_rows,
                                  .columns = columns});
    QUIRE_CHECK(ok, "{}", ranks.status().message());
    copy(other, shared, own.data());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (round >= kWarmUp) times_us.push_back(took.count());
  }
  std::sort(times_us.begin(), times_us.end());
  return times_us;
}

void measure(const char* what, RankGroup& ranks, int num_rounds) {
  for (const int64_t rows : kRows) {
    const std::vector<double> times = time_rounds(ranks, rows, num_rounds);
    if (ranks.rank() > 0) continue;
    const auto at = [&](double share) { return times[static_cast<size_t>(share * num_rounds)]; };
    fmt::print("{:<20}{:>8}{:>10.1f}{:>10.1f}{:>10.1f}\n", what, rows * kRowBytes, at(0.5), at(0.9),
               at(0.99));
  }
}

void on_threads(int num_rounds) {
  auto groups = SharedRanks::create(2, {.memory_bytes = 2 * kRows[2] * kRowBytes});
  QUIRE_CHECK(groups.ok(), "{}", groups.status().message());
  std::thread other([&] { measure("threads", *(*groups)[1], num_rounds); });
  measure("threads", *(*groups)[0], num_rounds);
  other.join();
}

void over_tcp(int num_rounds) {
  const auto run = [num_rounds](int rank) {
    auto links = RankLinks::join({.rank = rank, .size = 2, .port = 29511});
    QUIRE_CHECK(links.ok(), "{}", links.status().message());
    TcpRanks ranks(**links, 0, 2);
    QUIRE_CHECK(ranks.allocate(2 * kRows[2] * kRowBytes).ok(), "memory is short");
    measure("TCP on loopback", ranks, num_rounds);
    if (rank == 0) return (*links)->end();
    std::byte none{};
    (void)receive_all((*links)->control(0), {&none, 1}, deadline_in_ms(10'000));  // until the end
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  const int num_rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5000;
  fmt::print("{:<20}{:>8}{:>10}{:>10}{:>10}\n", "", "bytes", "p50 us", "p90 us", "p99 us");
  quire::on_threads(num_rounds);
  quire::over_tcp(num_rounds);
}
