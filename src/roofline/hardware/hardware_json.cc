// Reads and writes hardware descriptions as JSON. Units are those of data sheets: TFLOP/s, GB/s
// (1e9), GB, us.
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <type_traits>

#include "base/nearest_name.h"
#include "roofline/hardware/hardware.h"
#include "roofline/hardware/json_fields.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr NumberRange kShare{1e-4, 1.5};
constexpr NumberRange kMicroseconds{0, 1e7};
constexpr NumberRange kRate{1e-9, 1e30};  // above 0

// The same lists of fields serve reading and writing: Fields is JsonFields or a json::object.
class Reader {
 public:
  explicit Reader(const JsonFields& fields) : fields_(fields) {}
  void number(std::string_view key, double& value, NumberRange range = {}, double unit = 1) const {
    value = fields_.number(key, value / unit, range) * unit;
  }
  void integer(std::string_view key, int32_t& value, int32_t min, int32_t max) const {
    value = static_cast<int32_t>(fields_.integer({key}, value, min, max));
  }
  void boolean(std::string_view key, bool& value) const { value = fields_.boolean(key, value); }

 private:
  const JsonFields& fields_;
};

class Writer {
 public:
  explicit Writer(json::object& object) : object_(object) {}
  void number(std::string_view key, double& value, NumberRange = {}, double unit = 1) const {
    object_[{key.data(), key.size()}] = value / unit;
  }
  void integer(std::string_view key, int32_t& value, int32_t, int32_t) const {
    object_[{key.data(), key.size()}] = value;
  }
  void boolean(std::string_view key, bool& value) const {
    object_[{key.data(), key.size()}] = value;
  }

 private:
  json::object& object_;
};

template <typename Fields>
void visit_gemm(const Fields& fields, GemmModel& model) {
  fields.number("compute_share", model.compute_share, kShare);
  fields.number("memory_share", model.memory_share, kShare);
  fields.number("launch_us", model.launch_us, kMicroseconds);
  fields.number("exponent", model.exponent, {1, 1000});
  fields.number("tile_us", model.tile_us, kMicroseconds);
  fields.number("cache_gb_per_s", model.cache_bytes_per_s, {}, kGiga);
  fields.number("split_traffic", model.split_traffic, {0, 100});
  fields.number("split_us", model.split_us, kMicroseconds);
  fields.number("quantize_share", model.quantize_share, {0, 10});
  fields.number("quantize_row_us", model.quantize_row_us, kMicroseconds);
}

template <typename Fields>
void visit_experts(const Fields& fields, ExpertsModel& model) {
  fields.number("launch_us", model.launch_us, kMicroseconds);
  fields.number("expert_us", model.expert_us, kMicroseconds);
  fields.number("compute_share", model.compute_share, kShare);
  fields.number("memory_share", model.memory_share, kShare);
  fields.number("exponent", model.exponent, {1, 1000});
  fields.number("row_share", model.row_share, {1e-3, 1e3});  // above 1: caches hold the rows
  fields.number("foreign_share", model.foreign_share, {1e-3, 1e3});
  fields.number("foreign_us", model.foreign_us, kMicroseconds);
}

template <typename Fields>
void visit_prefill(const Fields& fields, PrefillAttentionModel& model) {
  fields.number("compute_share", model.compute_share, kShare);
  fields.number("softmax_flops", model.softmax_flops, {0, 1e9});
  fields.integer("tile_rows", model.tile_rows, 1, 4096);
  fields.integer("min_tile_rows", model.min_tile_rows, 1, 4096);
  fields.boolean("packs_heads", model.packs_heads);
  fields.number("tile_us", model.tile_us, kMicroseconds);
  fields.number("memory_share", model.memory_share, {1e-3, 1e6});  // above 1: reads are hidden
  fields.number("exponent", model.exponent, {1, 1000});
  fields.number("launch_us", model.launch_us, kMicroseconds);
  fields.number("cache_write", model.cache_write, {0, 1000});
}

template <typename Fields>
void visit_decode(const Fields& fields, DecodeAttentionModel& model) {
  fields.number("memory_share", model.memory_share, kShare);
  fields.number("unit_share", model.unit_share, {1e-3, 100});
  fields.number("compute_share", model.compute_share, kShare);
  fields.number("exponent", model.exponent, {1, 1000});
  fields.number("request_us", model.request_us, kMicroseconds);
  fields.number("combine_us", model.combine_us, kMicroseconds);
  fields.number("launch_us", model.launch_us, kMicroseconds);
}

template <typename Fields>
void visit_elementwise(const Fields& fields, ElementwiseModel& model) {
  fields.number("memory_share", model.memory_share, kShare);
  fields.number("launch_us", model.launch_us, kMicroseconds);
  fields.number("kernels_per_layer", model.kernels_per_layer, {0, 1000});
}

template <typename Fields>
void visit_collective(const Fields& fields, CollectiveModel& model) {
  fields.number("alpha_us", model.alpha_us, kMicroseconds);
  fields.number("alpha_per_device_us", model.alpha_per_device_us, kMicroseconds);
  fields.number("ramp_us", model.ramp_us, kMicroseconds);
  fields.number("gb_per_s", model.bytes_per_s, {}, kGiga);
  fields.number("share", model.share, kShare);
}

template <typename Fields>
void visit_host(const Fields& fields, HostModel& model) {
  fields.number("step_us", model.step_us, kMicroseconds);
  fields.number("request_us", model.request_us, kMicroseconds);
  fields.number("token_us", model.token_us, kMicroseconds);
  fields.number("layer_launch_us", model.layer_launch_us, kMicroseconds);
  fields.number("admission_us", model.admission_us, kMicroseconds);
}

template <typename Fields>
void visit_link(const Fields& fields, Link& link) {
  fields.number("gb_per_s", link.bytes_per_s, {}, kGiga);
  fields.number("latency_us", link.latency_us, kMicroseconds);
}

void read_bridge(const JsonFields& fields, Hardware& hardware) {
  const auto child = fields.child("bridge");
  if (!child) return;
  Bridge& bridge = hardware.bridge.emplace();
  visit_link(Reader(*child), bridge.link);
  if (const auto collective = child->child("collective")) {
    visit_collective(Reader(*collective), bridge.collective);
  }
}

template <typename Fields>
void visit_limits(const Fields& fields, Hardware& hardware) {
  fields.number("memory_gb_per_s", hardware.memory_bytes_per_s, kRate, kGiga);
  fields.number("memory_gb", hardware.memory_bytes, {}, kGiga);
  fields.number("cache_gb", hardware.cache_bytes, {}, kGiga);
  fields.number("cache_gb_per_s", hardware.cache_bytes_per_s, {}, kGiga);
  fields.number("price_per_hour", hardware.price_per_hour);
  fields.number("watts", hardware.watts);
  fields.number("lambda", hardware.lambda, {0, 10});
  fields.number("memory_utilisation", hardware.memory_utilisation, {0.01, 1});
  fields.number("reserved_gb", hardware.reserved_bytes, {}, kGiga);
  fields.number("communication_buffer_gb", hardware.communication_buffer_bytes, {}, kGiga);
}

// --- reading ---

template <typename Model, typename Visit>
void read_child(const JsonFields& fields, std::string_view key, Model& model, Visit visit) {
  if (const auto child = fields.child(key)) visit(Reader(*child), model);
}

void read_shares(const JsonFields& fields, GemmModel& model) {
  const json::value* value = fields.object().if_contains("shares");
  if (value == nullptr || value->is_null()) return;
  const auto fail = [&] { fields.fail("shares: expected an array of [rows, share]"); };
  if (!value->is_array() || value->get_array().size() > 4096) return fail();
  for (const json::value& point : value->get_array()) {
    json::error_code error;
    if (!point.is_array() || point.get_array().size() != 2) return fail();
    const double rows = point.get_array()[0].to_number<double>(error);
    const double share = error ? 0 : point.get_array()[1].to_number<double>(error);
    if (error) return fail();
    model.shares.push_back({rows, share});
  }
}

void read_gemm(const JsonFields& fields, Hardware& hardware) {
  const auto all = fields.child("gemm");
  if (!all) return;
  for (const auto& [key, value] : all->object()) {
    const std::optional<NumberFormat> format = parse_number_format(key);
    const auto child = all->child(key);
    if (!format) return fields.fail(fmt::format("gemm: unknown number format {}", key));
    if (!child) continue;
    const auto [entry, fresh] = hardware.gemm.try_emplace(kernel_kind(*format));
    if (!fresh)
      return fields.fail(fmt::format("gemm: two entries for {}", to_string(entry->first)));
    visit_gemm(Reader(*child), entry->second);
    read_shares(*child, entry->second);
  }
}

void read_experts(const JsonFields& fields, Hardware& hardware) {
  const auto all = fields.child("experts");
  if (!all) return;
  for (const auto& [key, value] : all->object()) {
    const std::optional<NumberFormat> format = parse_number_format(key);
    const auto child = all->child(key);
    if (!format) return fields.fail(fmt::format("experts: unknown number format {}", key));
    if (!child) continue;
    const auto [entry, fresh] = hardware.experts.try_emplace(kernel_kind(*format));
    if (!fresh) {
      return fields.fail(fmt::format("experts: two entries for {}", to_string(entry->first)));
    }
    visit_experts(Reader(*child), entry->second);
  }
}

void read_peaks(const JsonFields& fields, Hardware& hardware) {
  const auto peaks = fields.child("peak_tflops");
  if (!peaks) return fields.fail("peak_tflops: expected an object, got nothing");
  for (int i = 0; i < kNumMathTypes; ++i) {
    hardware.peak_flops[static_cast<size_t>(i)] =
        peaks->number(to_string(static_cast<MathType>(i)), 0, kRate) * kTera;
  }
}

void read_provenance(const JsonFields& fields, Provenance& provenance) {
  const auto child = fields.child("provenance");
  if (!child) return;
  provenance.source = child->string("source");
  provenance.date = child->string("date");
  provenance.device = child->string("device");
  provenance.versions = child->string("versions");
  provenance.num_samples =
      child->integer({"num_samples"}, 0, 0, std::numeric_limits<int64_t>::max());
  provenance.train_mape = child->number("train_mape", 0);
  provenance.test_mape = child->number("test_mape", 0);
}

void read_hardware(const JsonFields& fields, Hardware& hardware) {
  hardware.name = fields.string("name", "unnamed");
  hardware.description = fields.string("description");
  hardware.cpu = fields.boolean("cpu", false);
  hardware.table_path = fields.string("table_path");
  hardware.price_source = fields.string("price_source");
  hardware.num_units = static_cast<int32_t>(fields.integer({"num_units"}, 0, 0, 1 << 20));
  hardware.devices_per_node =
      static_cast<int32_t>(fields.integer({"devices_per_node"}, 8, 1, 1 << 20));
  read_peaks(fields, hardware);
  visit_limits(Reader(fields), hardware);
  read_child(fields, "device_link", hardware.device_link, visit_link<Reader>);
  read_bridge(fields, hardware);
  read_child(fields, "node_link", hardware.node_link, visit_link<Reader>);
  read_child(fields, "host_link", hardware.host_link, visit_link<Reader>);
  read_gemm(fields, hardware);
  read_experts(fields, hardware);
  read_child(fields, "prefill_attention", hardware.prefill_attention, visit_prefill<Reader>);
  read_child(fields, "decode_attention", hardware.decode_attention, visit_decode<Reader>);
  hardware.prefill_attention_fp8 = hardware.prefill_attention;
  hardware.decode_attention_fp8 = hardware.decode_attention;
  read_child(fields, "prefill_attention_fp8", hardware.prefill_attention_fp8,
             visit_prefill<Reader>);
  read_child(fields, "decode_attention_fp8", hardware.decode_attention_fp8, visit_decode<Reader>);
  read_child(fields, "elementwise", hardware.elementwise, visit_elementwise<Reader>);
  read_child(fields, "collective", hardware.collective, visit_collective<Reader>);
  if (const auto small = fields.child("small_all_reduce")) {
    visit_collective(Reader(*small), hardware.small_all_reduce.emplace());
  }
  if (const auto host = fields.child("host")) {
    visit_host(Reader(*host), hardware.host);
    for (const int64_t size : host->integers("graph_sizes")) {
      hardware.host.graph_sizes.push_back(static_cast<int32_t>(size));
    }
  }
  const Result<CombinationRule> rule = parse_combination_rule(fields.string("rule", "sum"));
  if (rule.ok()) {
    hardware.rule = *rule;
  } else {
    fields.fail(rule.status().message());
  }
  read_provenance(fields, hardware.provenance);
}

// --- writing ---

template <typename Model, typename Visit>
json::object written(Model& model, Visit visit) {
  json::object object;
  visit(Writer(object), model);
  return object;
}

json::object written_gemm(Hardware& hardware) {
  json::object all;
  for (auto& [kind, model] : hardware.gemm) {
    json::object object = written(model, visit_gemm<Writer>);
    if (!model.shares.empty()) {
      json::array shares;
      for (const SharePoint& point : model.shares) {
        shares.push_back(json::array{point.rows, point.share});
      }
      object["shares"] = std::move(shares);
    }
    all[std::string(to_string(kind))] = std::move(object);
  }
  return all;
}

json::object written_experts(Hardware& hardware) {
  json::object all;
  for (auto& [kind, model] : hardware.experts) {
    all[std::string(to_string(kind))] = written(model, visit_experts<Writer>);
  }
  return all;
}

json::object written_provenance(const Provenance& provenance) {
  json::object object;
  object["source"] = provenance.source;
  object["date"] = provenance.date;
  object["device"] = provenance.device;
  object["versions"] = provenance.versions;
  object["num_samples"] = provenance.num_samples;
  object["train_mape"] = provenance.train_mape;
  object["test_mape"] = provenance.test_mape;
  return object;
}

json::object written_hardware(Hardware& hardware) {
  json::object object;
  object["name"] = hardware.name;
  if (!hardware.description.empty()) object["description"] = hardware.description;
  object["cpu"] = hardware.cpu;
  object["num_units"] = hardware.num_units;
  object["devices_per_node"] = hardware.devices_per_node;
  json::object peaks;
  for (int i = 0; i < kNumMathTypes; ++i) {
    const double peak = hardware.peak_flops[static_cast<size_t>(i)];
    if (peak > 0) peaks[std::string(to_string(static_cast<MathType>(i)))] = peak / kTera;
  }
  object["peak_tflops"] = std::move(peaks);
  visit_limits(Writer(object), hardware);
  object["device_link"] = written(hardware.device_link, visit_link<Writer>);
  if (hardware.bridge) {
    json::object bridge = written(hardware.bridge->link, visit_link<Writer>);
    bridge["collective"] = written(hardware.bridge->collective, visit_collective<Writer>);
    object["bridge"] = std::move(bridge);
  }
  object["node_link"] = written(hardware.node_link, visit_link<Writer>);
  object["host_link"] = written(hardware.host_link, visit_link<Writer>);
  if (!hardware.gemm.empty()) object["gemm"] = written_gemm(hardware);
  if (!hardware.experts.empty()) object["experts"] = written_experts(hardware);
  object["prefill_attention"] = written(hardware.prefill_attention, visit_prefill<Writer>);
  object["decode_attention"] = written(hardware.decode_attention, visit_decode<Writer>);
  object["prefill_attention_fp8"] = written(hardware.prefill_attention_fp8, visit_prefill<Writer>);
  object["decode_attention_fp8"] = written(hardware.decode_attention_fp8, visit_decode<Writer>);
  object["elementwise"] = written(hardware.elementwise, visit_elementwise<Writer>);
  object["collective"] = written(hardware.collective, visit_collective<Writer>);
  if (hardware.small_all_reduce) {
    object["small_all_reduce"] = written(*hardware.small_all_reduce, visit_collective<Writer>);
  }
  json::object host = written(hardware.host, visit_host<Writer>);
  if (!hardware.host.graph_sizes.empty()) {
    host["graph_sizes"] =
        json::array(hardware.host.graph_sizes.begin(), hardware.host.graph_sizes.end());
  }
  object["host"] = std::move(host);
  object["rule"] = std::string(to_string(hardware.rule));
  if (!hardware.table_path.empty()) object["table_path"] = hardware.table_path;
  if (!hardware.price_source.empty()) object["price_source"] = hardware.price_source;
  object["provenance"] = written_provenance(hardware.provenance);
  return object;
}

// Prints each field on a line of its own, so that people can read and compare files.
void print(const json::value& value, int indent, std::string& out) {
  const auto newline = [&](int depth) {
    out += "\n" + std::string(static_cast<size_t>(depth), ' ');
  };
  if (!value.is_object() || value.get_object().empty()) {
    if (value.is_double()) {
      out += fmt::format("{:.10g}", value.get_double());
    } else {
      out += json::serialize(value);
    }
    return;
  }
  out += "{";
  bool first = true;
  for (const auto& [key, field] : value.get_object()) {
    if (!first) out += ",";
    first = false;
    newline(indent + 2);
    out += json::serialize(json::value(key)) + ": ";
    print(field, indent + 2, out);
  }
  newline(indent);
  out += "}";
}

}  // namespace

namespace {

// Returns a description with all fields.
json::object every_field() {
  Hardware hardware{.description = "d"};
  hardware.peak_flops.fill(1);
  hardware.gemm[KernelKind::kBf16].shares = {{1, 1}};
  hardware.experts[KernelKind::kBf16] = {};
  hardware.host.graph_sizes = {1};
  hardware.table_path = "t";
  hardware.price_source = "s";
  hardware.bridge.emplace();
  hardware.small_all_reduce.emplace();
  return written_hardware(hardware);
}

std::vector<std::string> keys_of(const json::object& fields) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : fields) keys.emplace_back(key);
  return keys;
}

// Refuses the keys of `given` that `known` does not have. Those of gemm and experts are formats,
// which their readers check, and each holds the fields of one kind.
Status check_keys(const json::object& given, const json::object& known, std::string_view where,
                  bool by_kind = false) {
  for (const auto& [key, value] : given) {
    const json::value* field = known.if_contains(by_kind ? json::string_view("bf16") : key);
    if (field == nullptr) {
      return invalid_argument("{}: unknown field {}{}", where, std::string(key),
                              did_you_mean({key.data(), key.size()}, keys_of(known)));
    }
    if (!field->is_object() || !value.is_object()) continue;
    QUIRE_RETURN_IF_ERROR(check_keys(value.get_object(), field->get_object(),
                                     fmt::format("{}: {}", where, std::string(key)),
                                     !by_kind && (key == "gemm" || key == "experts")));
  }
  return {};
}

}  // namespace

Result<Hardware> parse_hardware(std::string_view text, std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_json_object(text, where, kMaxFileBytes));
  if (const std::string twice = duplicate_key(text); !twice.empty()) {
    return invalid_argument("{}: two entries for {}", where, twice);
  }
  QUIRE_RETURN_IF_ERROR(check_keys(object, every_field(), where));
  Status status;
  Hardware hardware;
  read_hardware(JsonFields(object, std::string(where), status), hardware);
  QUIRE_RETURN_IF_ERROR(status);
  if (const Status valid = hardware.validate(); !valid.ok()) return valid.with_context(where);
  return hardware;
}

std::string to_json(const Hardware& hardware) {
  Hardware copy = hardware;  // since the lists of fields also serve reading
  std::string out;
  print(written_hardware(copy), 0, out);
  out += "\n";
  return out;
}

}  // namespace quire
