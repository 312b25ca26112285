#include "sim/workload/servegen.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "base/text_fields.h"
#include "sim/random/distribution.h"
#include "sim/random/random_stream.h"
#include "sim/workload/synthetic.h"
#include "sim/workload/token_content.h"
#include "sim/workload/trace_formats.h"

namespace quire::sim {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
enum Purpose : uint64_t { kGaps = 201, kInputs, kOutputs };
constexpr uint64_t kServeGenStream = 0x736567656eu;

struct Window {
  double begin_s = 0;
  double rate = 0;
  ArrivalProcess arrivals;
};

struct Lengths {
  std::optional<LengthDistribution> input, output;  // nullopt if nothing was recorded
};

struct Client {
  std::vector<Window> windows;
  std::map<double, Lengths> lengths;  // by start of the window
};

Result<std::vector<Window>> parse_windows(const std::string& text, const std::string& name) {
  std::vector<Window> windows;
  LineReader lines(text, name);
  while (const auto line = lines.next()) {
    if (line->empty()) continue;
    const std::vector<std::string_view> fields = split(*line, ',');
    if (fields.size() < 4) {
      return invalid_argument("{}: expected start, rate, variation, distribution, got '{}'",
                              lines.where(), line->substr(0, 60));
    }
    Window window;
    QUIRE_ASSIGN_OR_RETURN(window.begin_s, parse_number(fields[0], 0, 1e9, lines.where()));
    QUIRE_ASSIGN_OR_RETURN(window.rate, parse_number(fields[1], 0, 1e7, lines.where()));
    QUIRE_ASSIGN_OR_RETURN(const double cv, parse_number(fields[2], 0, 1e6, lines.where()));
    if (!windows.empty() && window.begin_s <= windows.back().begin_s) {
      return invalid_argument("{}: expected growing times, got {} after {}", lines.where(),
                              window.begin_s, windows.back().begin_s);
    }
    const std::string_view kind = trim(fields[3]);
    if (kind == "Weibull" && fields.size() > 4) {
      window.arrivals.kind = ArrivalKind::kWeibull;
      QUIRE_ASSIGN_OR_RETURN(window.arrivals.parameter,
                             parse_number(fields[4], 0.01, 1e4, lines.where()));
    } else if (kind == "Gamma") {
      window.arrivals = {.kind = ArrivalKind::kGamma, .parameter = std::clamp(cv, 0.01, 100.0)};
    } else if (!kind.empty()) {
      return invalid_argument("{}: expected Gamma or Weibull with a shape, got '{}'", lines.where(),
                              kind.substr(0, 20));
    }
    windows.push_back(window);
  }
  if (windows.empty())
    return invalid_argument("{}: expected at least one window, got an empty file", name);
  return windows;
}

// Reads "{133: 0.0015, 134: 0.0063}".
Result<std::optional<LengthDistribution>> parse_histogram(std::string_view text,
                                                          const std::string& where) {
  text = trim(text);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
    return invalid_argument("{}: expected {{LENGTH: PROBABILITY, …}}, got '{}'", where,
                            text.substr(0, 60));
  }
  text = trim(text.substr(1, text.size() - 2));
  if (text.empty()) return std::optional<LengthDistribution>();
  std::vector<int32_t> values;
  std::vector<double> weights;
  double total = 0;
  for (const std::string_view item : split(text, ',')) {
    const std::vector<std::string_view> pair = split(item, ':');
    if (pair.size() != 2) {
      return invalid_argument("{}: expected LENGTH: PROBABILITY, got '{}'", where,
                              item.substr(0, 60));
    }
    QUIRE_ASSIGN_OR_RETURN(const int64_t length,
                           parse_integer(pair[0], 0, LengthDistribution::kMaxLength, where));
    QUIRE_ASSIGN_OR_RETURN(const double weight, parse_number(pair[1], 0, 1e12, where));
    values.push_back(static_cast<int32_t>(std::max<int64_t>(length, 1)));
    weights.push_back(weight);
    total += weight;
  }
  if (!(total > 0)) return invalid_argument("{}: expected a probability above 0", where);
  return std::optional(LengthDistribution::weighted(std::move(values), weights));
}

Result<std::map<double, Lengths>> parse_lengths(const std::string& text, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object, parse_object(text, name));
  std::map<double, Lengths> all;
  for (const auto& [key, value] : object) {
    const std::string where = fmt::format("{}: \"{}\"", name, std::string_view(key).substr(0, 20));
    QUIRE_ASSIGN_OR_RETURN(const double begin_s, parse_number(key, 0, 1e9, where));
    Lengths lengths;
    for (const bool input : {true, false}) {
      const char* field = input ? "input_tokens" : "output_tokens";
      const boost::json::value* histogram =
          value.is_object() ? value.get_object().if_contains(field) : nullptr;
      if (histogram == nullptr || !histogram->is_string()) {
        return invalid_argument("{}: {}: expected a text", where, field);
      }
      QUIRE_ASSIGN_OR_RETURN((input ? lengths.input : lengths.output),
                             parse_histogram(histogram->get_string(), where));
    }
    all[begin_s] = std::move(lengths);
  }
  return all;
}

// Returns the histograms at a time: those of its window, or of the nearest earlier window that has
// some, or else of the nearest later one.
const Lengths* lengths_at(const std::map<double, Lengths>& all, double time_s) {
  const auto usable = [](const Lengths& l) { return l.input && l.output; };
  auto it = all.upper_bound(time_s);
  for (auto before = it; before != all.begin();) {
    if (usable((--before)->second)) return &before->second;
  }
  for (; it != all.end(); ++it) {
    if (usable(it->second)) return &it->second;
  }
  return nullptr;
}

// Generates one client's requests within the options' span.
void generate(const Client& client, const ServeGenOptions& options, size_t index,
              Workload& workload) {
  const double end_s = options.begin_s + options.duration_s;
  RandomStream gaps(options.seed, kGaps + (index << 8));
  RandomStream inputs(options.seed, kInputs + (index << 8));
  RandomStream outputs(options.seed, kOutputs + (index << 8));
  for (size_t w = 0; w < client.windows.size(); ++w) {
    const Window& window = client.windows[w];
    const double length_s = w + 1 < client.windows.size()
                                ? client.windows[w + 1].begin_s - window.begin_s
                            : w > 0 ? window.begin_s - client.windows[w - 1].begin_s
                                    : options.duration_s;
    const double from_s = std::max(window.begin_s, options.begin_s);
    const double to_s = std::min(window.begin_s + length_s, end_s);
    const double rate = window.rate * options.rate_factor;
    const Lengths* lengths = lengths_at(client.lengths, window.begin_s);
    if (rate <= 0 || from_s >= to_s || lengths == nullptr) continue;
    double time_s = from_s;
    while ((time_s += window.arrivals.draw_gap(gaps) / rate) < to_s) {
      if (static_cast<int64_t>(workload.requests.size()) >= options.max_requests) return;
      SimRequest request;
      request.arrival_ns = std::llround((time_s - options.begin_s) * 1e9);
      request.input_tokens = lengths->input->draw(inputs);
      request.output_tokens = lengths->output->draw(outputs);
      request.content = stream_id(kServeGenStream ^ index, workload.requests.size());
      request.session = static_cast<int32_t>(index);
      workload.requests.push_back(request);
    }
  }
}

}  // namespace

Result<Workload> parse_servegen(const std::vector<ServeGenClient>& clients,
                                const ServeGenOptions& options) {
  if (!(options.duration_s > 0) || !(options.rate_factor > 0) || options.begin_s < 0) {
    return invalid_argument("servegen: expected a start >= 0, a duration and a rate factor > 0");
  }
  Workload workload;
  for (size_t i = 0; i < clients.size(); ++i) {
    Client client;
    QUIRE_ASSIGN_OR_RETURN(client.windows, parse_windows(clients[i].trace, clients[i].trace_name));
    QUIRE_ASSIGN_OR_RETURN(client.lengths,
                           parse_lengths(clients[i].dataset, clients[i].dataset_name));
    generate(client, options, i, workload);
  }
  workload.name = "servegen";
  sort_by_arrival(workload);
  if (workload.requests.empty()) {
    return invalid_argument("servegen: no requests between {} s and {} s", options.begin_s,
                            options.begin_s + options.duration_s);
  }
  QUIRE_RETURN_IF_ERROR(workload.validate());
  return workload;
}

Result<Workload> read_servegen(const std::string& folder, const ServeGenOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> traces;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().string();
    if (name.find("-trace.csv") != std::string::npos) traces.push_back(name);
  }
  if (error || traces.empty()) {
    return not_found("{}: expected a folder with chunk-N-trace.csv files", folder);
  }
  std::sort(traces.begin(), traces.end());
  std::vector<ServeGenClient> clients;
  for (const std::string& trace : traces) {
    ServeGenClient client{.trace_name = trace};
    client.dataset_name = trace;
    const size_t at = client.dataset_name.rfind("-trace.csv");
    client.dataset_name.replace(at, 10, "-dataset.json");
    QUIRE_ASSIGN_OR_RETURN(client.trace, read_text(client.trace_name, kMaxFileBytes));
    QUIRE_ASSIGN_OR_RETURN(client.dataset, read_text(client.dataset_name, kMaxFileBytes));
    clients.push_back(std::move(client));
  }
  Result<Workload> workload = parse_servegen(clients, options);
  if (workload.ok()) workload->name = folder;
  return workload;
}

}  // namespace quire::sim
