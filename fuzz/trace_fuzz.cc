// The input is a recorded workload, or a text that describes a synthetic one; the first byte
// chooses. It is read or refused, and what is read must stay the same when written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/random/distribution.h"
#include "sim/workload/servegen.h"
#include "sim/workload/synthetic.h"
#include "sim/workload/trace.h"

namespace {

using namespace quire::sim;

constexpr int kNumFormats = 8;

void read_and_write(std::string_view text, const TraceOptions& options) {
  const auto workload = parse_trace(text, "fuzz", options);
  if (!workload.ok()) return;
  const std::string written = write_trace(*workload);
  const auto back = parse_trace(written, "again");
  if (!back.ok() || write_trace(*back) != written) std::abort();
}

void read_servegen_texts(std::string_view text) {
  const size_t cut = text.find('\x01');
  ServeGenClient client;
  client.trace_name = "trace";
  client.dataset_name = "dataset";
  client.trace = text.substr(0, cut);
  if (cut != text.npos) client.dataset = text.substr(cut + 1);
  (void)parse_servegen({client}, {.duration_s = 100, .rate_factor = 0.01, .max_requests = 1000});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int what = data[0] % (kNumFormats + 4);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (what < kNumFormats) {
    read_and_write(text, {.format = static_cast<TraceFormat>(what)});
  } else if (what == kNumFormats) {
    read_and_write(text, {});
  } else if (what == kNumFormats + 1) {
    read_servegen_texts(text);
  } else if (what == kNumFormats + 3) {
    read_and_write(text, {.format = TraceFormat::kColumns});
  } else if (text.substr(0, 9) != "empirical") {  // "empirical" would read files
    RandomStream random(1, 1);
    if (const auto lengths = LengthDistribution::parse(text, "fuzz"); lengths.ok()) {
      if (lengths->draw(random) < 1) std::abort();
    }
    if (const auto rate = RateProfile::parse(text, "fuzz"); rate.ok()) (void)rate->time_of(10);
    if (const auto arrivals = ArrivalProcess::parse(text, "fuzz"); arrivals.ok()) {
      if (!(arrivals->draw_gap(random) >= 0)) std::abort();
    }
  }
  return 0;
}
