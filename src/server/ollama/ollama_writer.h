// OllamaWriter writes answers in the form of Ollama's API: objects, each on a line of its own when
// streamed.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

#include "server/answer/answer_writer.h"

namespace quire::server {

enum class OllamaAnswer : uint8_t { kChat, kGenerate };

class OllamaWriter final : public AnswerWriter {
 public:
  // `created_at` is the time in Ollama's format.
  OllamaWriter(OllamaAnswer kind, bool streams, std::string model, std::string created_at)
      : kind_(kind),
        streams_(streams),
        model_(std::move(model)),
        created_at_(std::move(created_at)) {}

  bool streams() const override { return streams_; }
  std::string_view content_type() const override;
  Status add(boost::json::object chunk, std::string& out) override;
  void finish(std::string& out) override;
  void break_off(const ApiError& error, std::string& out) override;
  HttpResponse refuse(const ApiError& error) const override;
  uint64_t held_bytes() const override { return held_bytes_; }

 private:
  // The content of one object.
  struct Piece {
    std::string content, thinking;
    boost::json::array calls;
    bool empty() const { return content.empty() && thinking.empty() && calls.empty(); }
  };

  void read_delta(const boost::json::object& choice, Piece& piece);
  void end_call(Piece& piece);
  void emit(Piece piece, std::string& out);
  boost::json::object object_of(Piece piece, bool done) const;
  void read_usage(const boost::json::object& usage);

  const OllamaAnswer kind_;
  const bool streams_;
  const std::string model_;
  const std::string created_at_;
  Piece whole_;  // for an answer in one piece
  bool in_call_ = false;
  int64_t num_calls_ = 0;  // calls that have ended
  boost::json::value call_id_;
  std::string call_name_, call_arguments_;  // of the unfinished call
  std::string done_reason_ = "stop";
  int64_t prompt_tokens_ = 0, output_tokens_ = 0;
  int64_t prompt_ns_ = 0, decode_ns_ = 0, total_ns_ = 0;
  uint64_t held_bytes_ = 0;
};

// Returns {"error": message}.
HttpResponse ollama_error_response(const ApiError& error);
// Returns the time in RFC 3339 format, UTC.
std::string ollama_time(int64_t unix_time_s);

}  // namespace quire::server
