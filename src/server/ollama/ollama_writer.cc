#include "server/ollama/ollama_writer.h"

#include <boost/json/serialize.hpp>
#include <ctime>
#include <utility>

#include "server/json/json_body.h"
#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr uint32_t kMaxArgumentsDepth = 64;

int64_t ns_of(const json::object& timings, std::string_view name) {
  const json::value* const value = find_member(timings, name);
  return value != nullptr && value->is_number()
             ? static_cast<int64_t>(value->to_number<double>() * 1e6)
             : 0;
}

std::string error_text(const ApiError& error) {
  const std::string message = error.status == 401 ? "unauthorized" : presentable(error.message);
  return json::serialize(json::object{{"error", message}});
}

}  // namespace

HttpResponse ollama_error_response(const ApiError& error) {
  return error_response(error, error_text(error));
}

std::string ollama_time(int64_t unix_time_s) {
  const std::time_t time = unix_time_s;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, size);
}

std::string_view OllamaWriter::content_type() const {
  return streams_ ? std::string_view("application/x-ndjson") : std::string_view("application/json");
}

Status OllamaWriter::add(json::object chunk, std::string& out) {
  if (const json::value* const usage = find_member(chunk, "usage")) read_usage(usage->as_object());
  for (const json::value& choice : chunk.at("choices").as_array()) {
    Piece piece;
    read_delta(choice.as_object(), piece);
    emit(std::move(piece), out);
  }
  return {};
}

void OllamaWriter::read_usage(const json::object& usage) {
  prompt_tokens_ = count_member(usage, "prompt_tokens");
  output_tokens_ = count_member(usage, "completion_tokens");
  if (const json::value* const timings = find_member(usage, "timings")) {
    const json::object& times = timings->as_object();
    prompt_ns_ = ns_of(times, "prompt_ms");
    decode_ns_ = ns_of(times, "decode_ms");
    total_ns_ = ns_of(times, "last_token_ms");
  }
}

// Reads the delta of a chat's choice or of a completion's.
void OllamaWriter::read_delta(const json::object& choice, Piece& piece) {
  piece.content = text_member(choice, "text");
  if (const json::value* const delta = find_member(choice, "delta")) {
    const json::object& object = delta->as_object();
    piece.thinking = text_member(object, "reasoning");
    piece.content = text_member(object, "content");
    if (const json::value* const calls = find_member(object, "tool_calls")) {
      for (const json::value& value : calls->as_array()) {
        const json::object& call = value.as_object();
        const json::object& function = call.at("function").as_object();
        if (call.contains("id")) {
          end_call(piece);
          in_call_ = true;
          call_id_ = call.at("id");
          call_name_ = text_member(function, "name");
        }
        const std::string_view arguments = text_member(function, "arguments");
        held_bytes_ += arguments.size();
        call_arguments_ += arguments;
      }
    }
  }
  if (const std::string_view reason = text_member(choice, "finish_reason"); !reason.empty()) {
    done_reason_ = reason == "length" ? "length" : "stop";
    end_call(piece);
  }
}

// Ollama's calls are sent whole, with their arguments as an object. A call that was cut off is left
// out.
void OllamaWriter::end_call(Piece& piece) {
  if (!std::exchange(in_call_, false)) return;
  const std::string text = std::exchange(call_arguments_, {});
  Result<json::value> arguments =
      text.empty() ? Result<json::value>(json::object{}) : parse_json(text, kMaxArgumentsDepth);
  if (!arguments.ok() || !arguments->is_object()) return;
  json::object function{
      {"index", num_calls_++}, {"name", call_name_}, {"arguments", std::move(arguments).value()}};
  piece.calls.push_back(json::object{{"id", call_id_}, {"function", std::move(function)}});
}

void OllamaWriter::emit(Piece piece, std::string& out) {
  if (piece.empty()) return;
  if (streams_) {
    out += json::serialize(object_of(std::move(piece), false)) + "\n";
    return;
  }
  held_bytes_ += piece.content.size() + piece.thinking.size() + memory_bytes(piece.calls);
  whole_.content += piece.content;
  whole_.thinking += piece.thinking;
  for (json::value& call : piece.calls) whole_.calls.push_back(std::move(call));
}

json::object OllamaWriter::object_of(Piece piece, bool done) const {
  json::object out{{"model", model_}, {"created_at", created_at_}};
  if (kind_ == OllamaAnswer::kGenerate) {
    out["response"] = std::move(piece.content);
    if (!piece.thinking.empty()) out["thinking"] = std::move(piece.thinking);
  } else {
    json::object message{{"role", "assistant"}, {"content", std::move(piece.content)}};
    if (!piece.thinking.empty()) message["thinking"] = std::move(piece.thinking);
    if (!piece.calls.empty()) message["tool_calls"] = std::move(piece.calls);
    out["message"] = std::move(message);
  }
  out["done"] = done;
  return out;
}

void OllamaWriter::finish(std::string& out) {
  json::object last = object_of(std::move(whole_), true);
  last["done_reason"] = done_reason_;
  last["total_duration"] = total_ns_;
  last["load_duration"] = 0;
  last["prompt_eval_count"] = prompt_tokens_;
  last["prompt_eval_duration"] = prompt_ns_;
  last["eval_count"] = output_tokens_;
  last["eval_duration"] = decode_ns_;
  out += json::serialize(last);
  if (streams_) out += "\n";
}

void OllamaWriter::break_off(const ApiError& error, std::string& out) {
  out += error_text(error) + "\n";
}

HttpResponse OllamaWriter::refuse(const ApiError& error) const {
  return ollama_error_response(error);
}

}  // namespace quire::server
