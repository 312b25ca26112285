// These writers write answers in the form of Anthropic's Messages API.
#pragma once

#include "server/answer/answer_writer.h"
#include "server/anthropic/message_events.h"

namespace quire::server {

class MessageWriter final : public AnswerWriter {
 public:
  MessageWriter(MessageShape shape, bool streams) : streams_(streams), events_(std::move(shape)) {}

  bool streams() const override { return streams_; }
  std::string_view content_type() const override;
  Status add(boost::json::object chunk, std::string& out) override;
  void finish(std::string& out) override;
  void break_off(const ApiError& error, std::string& out) override;
  HttpResponse refuse(const ApiError& error) const override;
  uint64_t held_bytes() const override { return fold_.held_bytes(); }

 private:
  void write(MessageEvents events, std::string& out);

  const bool streams_;
  MessageEventBuilder events_;
  MessageFold fold_;  // for an answer in one piece
};

}  // namespace quire::server
