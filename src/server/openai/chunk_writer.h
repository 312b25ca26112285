// ChunkWriter writes answers of OpenAI's chat completions and completions: the chunks as events, or
// their fold.
#pragma once

#include "server/answer/answer_writer.h"
#include "server/openai/response_fold.h"

namespace quire::server {

class ChunkWriter final : public AnswerWriter {
 public:
  ChunkWriter(Endpoint endpoint, bool streams) : streams_(streams), fold_(endpoint) {}

  bool streams() const override { return streams_; }
  std::string_view content_type() const override;
  Status add(boost::json::object chunk, std::string& out) override;
  void finish(std::string& out) override;
  void break_off(const ApiError& error, std::string& out) override;
  HttpResponse refuse(const ApiError& error) const override { return error_response(error); }
  uint64_t held_bytes() const override { return fold_.held_bytes(); }

 private:
  const bool streams_;
  ResponseFold fold_;  // for an answer in one piece
};

}  // namespace quire::server
