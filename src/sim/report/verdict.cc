#include "sim/report/verdict.h"

#include <algorithm>

namespace quire::sim {
namespace {

struct Third {
  double in_system = 0, running = 0, waiting = 0;  // means
};

Third mean_of(const std::vector<TimeSlice>& slices, int64_t slice_ns, size_t begin, size_t end) {
  Third third;
  int64_t in_system = 0;
  for (size_t i = 0; i < end; ++i) {
    in_system += slices[i].num_arrivals - slices[i].num_finished;
    if (i < begin) continue;
    third.in_system += static_cast<double>(in_system);
    third.running += static_cast<double>(slices[i].running_ns) / static_cast<double>(slice_ns);
    third.waiting += static_cast<double>(slices[i].waiting_ns) / static_cast<double>(slice_ns);
  }
  const auto n = static_cast<double>(std::max<size_t>(end - begin, 1));
  return {third.in_system / n, third.running / n, third.waiting / n};
}

}  // namespace

void judge(const RunResult& result, Summary& s) {
  const std::vector<TimeSlice>& slices = result.stats.timeline.slices();
  size_t end = slices.size();  // end of the time in which requests arrived
  while (end > 0 && slices[end - 1].num_arrivals == 0) --end;
  const int64_t slice_ns = result.stats.timeline.slice_ns();
  const Third second = mean_of(slices, slice_ns, end / 3, 2 * end / 3);
  const Third last = mean_of(slices, slice_ns, 2 * end / 3, end);
  const bool waits = last.waiting > 0.1 * last.running && last.waiting > 0.5;
  if (s.num_refused > 0) {
    s.verdict = Verdict::kOverloaded;
    s.verdict_reason = fmt::format("{} requests were refused", s.num_refused);
  } else if (end >= 6 && waits && last.in_system > 1.3 * second.in_system) {
    s.verdict = Verdict::kOverloaded;
    s.verdict_reason = fmt::format(
        "requests in the system grew from {:.1f} to {:.1f} between the second and the "
        "last third of the arrivals",
        second.in_system, last.in_system);
  } else if (waits) {
    s.verdict = Verdict::kBacklogged;
    s.verdict_reason = fmt::format("{:.1f} requests wait beside {:.1f} that run, and do not grow",
                                   last.waiting, last.running);
  } else {
    s.verdict_reason = fmt::format("{:.1f} requests run and {:.1f} wait in the last third",
                                   last.running, last.waiting);
  }
}

}  // namespace quire::sim
