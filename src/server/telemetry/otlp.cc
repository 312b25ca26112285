#include "server/telemetry/otlp.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

namespace quire::server {
namespace {

namespace json = boost::json;

// These are numbers of the protocol's enumerations.
constexpr int kSpanKindServer = 2, kStatusError = 2, kCumulative = 2;

json::object attribute(std::string_view key, const Span::Value& value) {
  json::object typed;
  if (const auto* const text = std::get_if<std::string>(&value)) {
    typed["stringValue"] = *text;
  } else if (const auto* const count = std::get_if<int64_t>(&value)) {
    typed["intValue"] = std::to_string(*count);  // protobuf's JSON writes 64-bit numbers as texts
  } else {
    typed["doubleValue"] = std::get<double>(value);
  }
  return {{"key", key}, {"value", std::move(typed)}};
}

json::object resource(std::string_view service_name) {
  return {{"attributes", json::array{attribute("service.name", std::string(service_name)),
                                     attribute("service.version", QUIRE_VERSION)}}};
}

json::object scope() { return {{"name", "quire"}, {"version", QUIRE_VERSION}}; }

json::object span_json(const Span& span) {
  json::array attributes;
  for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
  json::object out{{"traceId", span.trace.trace_id},
                   {"spanId", span.span_id},
                   {"name", span.name},
                   {"kind", kSpanKindServer},
                   {"startTimeUnixNano", std::to_string(span.start_ns)},
                   {"endTimeUnixNano", std::to_string(span.end_ns)},
                   {"attributes", std::move(attributes)}};
  if (!span.trace.parent_id.empty()) out["parentSpanId"] = span.trace.parent_id;
  if (span.has_failed)
    out["status"] = json::object{{"code", kStatusError}, {"message", span.error}};
  return out;
}

// A Sample is a line of the text format: name{label="value",…} number.
struct Sample {
  std::string_view name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

// Returns the value of a label. `at` is after its opening quote, and is moved to after its closing
// one.
std::string label_value(std::string_view line, size_t& at) {
  std::string value;
  for (; at < line.size() && line[at] != '"'; ++at) {
    if (line[at] == '\\' && at + 1 < line.size()) {
      ++at;
      value.push_back(line[at] == 'n' ? '\n' : line[at]);
    } else {
      value.push_back(line[at]);
    }
  }
  at = std::min(at + 1, line.size());
  return value;
}

std::optional<double> number(std::string_view text) {
  if (text == "+Inf") return INFINITY;
  if (text == "NaN") return NAN;
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                               : std::nullopt;
}

// Returns nullopt when the line is no sample.
std::optional<Sample> parse_sample(std::string_view line) {
  Sample sample;
  size_t at = std::min(line.find_first_of("{ "), line.size());
  sample.name = line.substr(0, at);
  if (at < line.size() && line[at] == '{') {
    ++at;
    while (at < line.size() && line[at] != '}') {
      const size_t equals = line.find("=\"", at);
      if (equals == line.npos) return std::nullopt;
      std::string key(line.substr(at, equals - at));
      at = equals + 2;
      sample.labels.emplace_back(std::move(key), label_value(line, at));
      if (at < line.size() && line[at] == ',') ++at;
    }
    ++at;
  }
  if (sample.name.empty() || at >= line.size() || line[at] != ' ') return std::nullopt;
  const auto value = number(line.substr(at + 1));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

struct Times {
  int64_t start_ns, now_ns;
};

json::object point_of(const Sample& sample, const Times& times) {
  json::array attributes;
  for (const auto& [key, value] : sample.labels) {
    if (key != "le") attributes.push_back(attribute(key, value));
  }
  return {{"attributes", std::move(attributes)},
          {"startTimeUnixNano", std::to_string(times.start_ns)},
          {"timeUnixNano", std::to_string(times.now_ns)}};
}

// A Family is the metric of one # TYPE line with its samples.
class Family {
 public:
  Family(std::string_view name, std::string_view type, std::string_view help)
      : name_(name), type_(type), help_(help) {}

  void add(const Sample& sample, const Times& times) {
    if (type_ == "histogram") return add_to_histogram(sample, times);
    if (!std::isfinite(sample.value)) return;  // JSON has no such numbers
    json::object point = point_of(sample, times);
    point["asDouble"] = sample.value;
    points_.push_back(std::move(point));
  }

  json::object take() {
    for (auto& [key, histogram] : histograms_) points_.push_back(std::move(histogram.point));
    json::object data{{"dataPoints", std::move(points_)}};
    std::string_view kind = "gauge";
    if (type_ != "gauge") data["aggregationTemporality"] = kCumulative;
    if (type_ == "histogram") kind = "histogram";
    if (type_ == "counter") {
      kind = "sum";
      data["isMonotonic"] = true;
    }
    json::object out{{"name", name_}, {"description", help_}};
    out[kind] = std::move(data);
    return out;
  }

 private:
  struct Histogram {
    json::object point;
    double below = 0;  // the count of all earlier buckets
  };

  void add_to_histogram(const Sample& sample, const Times& times) {
    std::string key, bound;
    for (const auto& [label, value] : sample.labels) {
      if (label == "le") {
        bound = value;
      } else {
        key += fmt::format("{}={}\n", label, value);
      }
    }
    const auto [place, is_new] = histograms_.try_emplace(key);
    Histogram& histogram = place->second;
    if (is_new) {
      histogram.point = point_of(sample, times);
      histogram.point["bucketCounts"] = json::array{};
      histogram.point["explicitBounds"] = json::array{};
    }
    const auto count = [](double x) { return std::to_string(static_cast<int64_t>(x)); };
    if (sample.name.ends_with("_sum") && std::isfinite(sample.value)) {
      histogram.point["sum"] = sample.value;
    } else if (sample.name.ends_with("_count")) {
      histogram.point["count"] = count(sample.value);
    } else if (const auto limit = number(bound)) {
      histogram.point["bucketCounts"].as_array().emplace_back(
          count(sample.value - std::exchange(histogram.below, sample.value)));
      if (std::isfinite(*limit)) histogram.point["explicitBounds"].as_array().emplace_back(*limit);
    }
  }

  const std::string name_, type_, help_;
  json::array points_;
  std::map<std::string, Histogram> histograms_;
};

}  // namespace

std::string otlp_traces(std::span<const Span> spans, std::string_view service_name) {
  json::array list;
  for (const Span& span : spans) list.push_back(span_json(span));
  json::object of_scope{{"scope", scope()}, {"spans", std::move(list)}};
  json::object of_resource{{"resource", resource(service_name)},
                           {"scopeSpans", json::array{std::move(of_scope)}}};
  return json::serialize(json::object{{"resourceSpans", json::array{std::move(of_resource)}}});
}

std::string otlp_metrics(std::string_view text, std::string_view service_name, int64_t start_ns,
                         int64_t now_ns) {
  json::array metrics;
  std::optional<Family> family;
  std::string_view help;
  const auto end_family = [&] {
    if (family) metrics.push_back(family->take());
    family.reset();
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const bool is_help = line.starts_with("# HELP "), is_type = line.starts_with("# TYPE ");
    if (is_help || is_type) {
      const std::string_view rest = line.substr(7);
      const size_t space = std::min(rest.find(' '), rest.size());
      const std::string_view what = rest.substr(std::min(space + 1, rest.size()));
      end_family();
      if (is_help) help = what;
      if (is_type) family.emplace(rest.substr(0, space), what, std::exchange(help, {}));
    } else if (const auto sample = family ? parse_sample(line) : std::nullopt) {
      family->add(*sample, {start_ns, now_ns});
    }
  }
  end_family();
  json::object of_scope{{"scope", scope()}, {"metrics", std::move(metrics)}};
  json::object of_resource{{"resource", resource(service_name)},
                           {"scopeMetrics", json::array{std::move(of_scope)}}};
  return json::serialize(json::object{{"resourceMetrics", json::array{std::move(of_resource)}}});
}

}  // namespace quire::server
