#include "roofline/calibrate/step_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <utility>

#include "roofline/hardware/json_fields.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kMaxSteps = 20'000'000;
constexpr int64_t kMaxUs = int64_t{1} << 50;

std::string_view next_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

Result<StepLogHeader> parse_header(std::string_view line, const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_json_object(line, where, kMaxLineBytes));
  Status status;
  const JsonFields fields(object, where, status);
  if (fields.integer({"quire_step_log"}, 0) != 1) {
    return invalid_argument("{}: expected a step log of version 1 (\"quire_step_log\": 1)", where);
  }
  StepLogHeader header;
  header.hardware = fields.string("hardware");
  header.parallelism.tp = static_cast<int32_t>(fields.integer({"tp"}, 1, 1, 4096));
  header.parallelism.pp = static_cast<int32_t>(fields.integer({"pp"}, 1, 1, 4096));
  const auto model = fields.child("model");
  QUIRE_RETURN_IF_ERROR(status);
  if (!model) return invalid_argument("{}: model: expected an object, got nothing", where);
  const std::string text = json::serialize(model->object());
  QUIRE_ASSIGN_OR_RETURN(header.model, parse_model_description(text, where + ": model"));
  return header;
}

void read_chunks(const JsonFields& fields, StepShape& shape) {
  const json::value* chunks = fields.object().if_contains("chunks");
  if (chunks == nullptr) return;
  const auto fail = [&] { fields.fail("chunks: expected an array of [tokens, context]"); };
  if (!chunks->is_array() || chunks->get_array().size() > 65536) return fail();
  for (const json::value& chunk : chunks->get_array()) {
    if (!chunk.is_array() || chunk.get_array().size() != 2) return fail();
    const json::value& tokens = chunk.get_array()[0];
    const json::value& context = chunk.get_array()[1];
    const auto sane = [](const json::value& v, int64_t min) {
      return v.is_int64() && v.get_int64() >= min && v.get_int64() < (int64_t{1} << 30);
    };
    if (!sane(tokens, 2) || !sane(context, 0)) return fail();
    shape.chunks.push_back(
        {static_cast<int32_t>(tokens.get_int64()), static_cast<int32_t>(context.get_int64())});
  }
}

// Refuses sums that contradict each other, since these would give a wrong fit.
void check_shape(const JsonFields& fields, const StepShape& shape) {
  int64_t tokens = shape.decode.num_requests;
  for (const PromptChunk& chunk : shape.chunks) tokens += chunk.num_tokens;
  const int64_t requests = shape.decode.num_requests + static_cast<int64_t>(shape.chunks.size());
  if (tokens != shape.num_tokens || requests != shape.num_requests) {
    fields.fail(
        fmt::format("expected decodes and chunks of {} tokens and {} requests, got {} and {}",
                    shape.num_tokens, shape.num_requests, tokens, requests));
  }
}

Result<MeasuredStep> parse_step(std::string_view line, const std::string& where) {
  QUIRE_ASSIGN_OR_RETURN(const json::object object, parse_json_object(line, where, kMaxLineBytes));
  Status status;
  const JsonFields fields(object, where, status);
  MeasuredStep step;
  StepShape& shape = step.shape;
  step.step_id = static_cast<uint64_t>(fields.integer({"step"}, 0, 0, kMaxUs));
  step.begin_us = fields.integer({"t_us"}, 0, 0, kMaxUs);
  shape.num_tokens = static_cast<int32_t>(fields.integer({"tokens"}, {}, 1, 1 << 30));
  shape.num_requests = static_cast<int32_t>(fields.integer({"requests"}, {}, 1, 1 << 30));
  shape.num_sampled = static_cast<int32_t>(fields.integer({"sampled"}, 0, 0, 1 << 30));
  shape.decode.num_requests = static_cast<int32_t>(fields.integer({"decodes"}, 0, 0, 1 << 30));
  shape.decode.context = fields.integer({"decode_context"}, 0, 0, kMaxUs);
  const std::vector<int64_t> windowed = fields.integers("windowed");
  for (size_t i = 0; i < std::min<size_t>(windowed.size(), kMaxWindows); ++i) {
    shape.decode.windowed[i] = windowed[i];
  }
  read_chunks(fields, shape);
  step.schedule_us = fields.integer({"schedule_us"}, 0, 0, kMaxUs);
  step.execute_us = fields.integer({"execute_us"}, {}, 0, kMaxUs);
  step.update_us = fields.integer({"update_us"}, 0, 0, kMaxUs);
  step.num_waiting = static_cast<int32_t>(fields.integer({"waiting"}, 0));
  step.failed = fields.boolean("failed", false);
  check_shape(fields, shape);
  QUIRE_RETURN_IF_ERROR(status);
  return step;
}

}  // namespace

std::string format_header(const StepLogHeader& header) {
  return fmt::format(
      "{{\"quire_step_log\": 1, \"hardware\": {}, \"tp\": {}, \"pp\": {}, \"model\": {}}}\n",
      json::serialize(json::string(header.hardware)), header.parallelism.tp, header.parallelism.pp,
      to_json(header.model));
}

void append_step(std::string& out, const MeasuredStep& step, const StepCost& cost) {
  const StepShape& shape = step.shape;
  const auto end = std::back_inserter(out);
  fmt::format_to(end,
                 "{{\"step\": {}, \"t_us\": {}, \"tokens\": {}, \"requests\": {}, \"sampled\": {}, "
                 "\"decodes\": {}, \"decode_context\": {}, \"windowed\": [{}, {}], \"chunks\": [",
                 step.step_id, step.begin_us, shape.num_tokens, shape.num_requests,
                 shape.num_sampled, shape.decode.num_requests, shape.decode.context,
                 shape.decode.windowed[0], shape.decode.windowed[1]);
  for (size_t i = 0; i < shape.chunks.size(); ++i) {
    fmt::format_to(end, "{}[{}, {}]", i == 0 ? "" : ", ", shape.chunks[i].num_tokens,
                   shape.chunks[i].context);
  }
  fmt::format_to(end,
                 "], \"waiting\": {}, \"schedule_us\": {}, \"execute_us\": {}, \"update_us\": {}, "
                 "\"bound_us\": {:.1f}, \"predicted_us\": {:.1f}, \"flops\": {:.6g}, "
                 "\"read_bytes\": {:.6g}, \"write_bytes\": {:.6g}, \"binding\": \"{}\"{}}}\n",
                 step.num_waiting, step.schedule_us, step.execute_us, step.update_us, cost.bound_us,
                 cost.total_us, cost.flops, cost.read_bytes, cost.write_bytes,
                 to_string(cost.binding), step.failed ? ", \"failed\": true" : "");
}

Result<StepLog> parse_step_log(std::string_view text, std::string_view where) {
  StepLog log;
  std::string_view rest = text;
  QUIRE_ASSIGN_OR_RETURN(log.header, parse_header(next_line(rest), fmt::format("{}:1", where)));
  for (size_t number = 2; !rest.empty(); ++number) {
    const bool whole = rest.find('\n') != std::string_view::npos;
    const std::string_view line = next_line(rest);
    if (line.empty()) continue;
    if (log.steps.size() >= kMaxSteps) {
      return too_large("{}: expected at most {} steps", where, kMaxSteps);
    }
    Result<MeasuredStep> step = parse_step(line, fmt::format("{}:{}", where, number));
    if (!step.ok() && !whole) break;
    if (!step.ok()) return step.status();
    log.steps.push_back(std::move(*step));
  }
  return log;
}

}  // namespace quire
