// LlamaWriter writes answers of /completion and /infill in the form of llama.cpp's server.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

#include "server/answer/answer_writer.h"

namespace quire::server {

class LlamaWriter final : public AnswerWriter {
 public:
  struct Head {
    bool streams = false;
    std::string model;
    std::string prompt;
    int64_t num_prompt_tokens = 0;
    boost::json::object settings;  // generation settings
  };
  explicit LlamaWriter(Head head) : head_(std::move(head)) {}

  bool streams() const override { return head_.streams; }
  std::string_view content_type() const override;
  Status add(boost::json::object chunk, std::string& out) override;
  void finish(std::string& out) override;
  void break_off(const ApiError& error, std::string& out) override;
  HttpResponse refuse(const ApiError& error) const override { return error_response(error); }
  uint64_t held_bytes() const override { return content_.size() + 16 * tokens_.size(); }

 private:
  void read_choice(const boost::json::object& choice, std::string& out);
  boost::json::object timings() const;

  const Head head_;
  std::string content_;        // for an answer in one piece
  boost::json::array tokens_;  // likewise
  bool has_new_line_ = false;
  std::string stop_type_ = "none";
  std::string stopping_word_;
  int64_t num_tokens_ = 0;
  double prompt_ms_ = 0, decode_ms_ = 0;
};

}  // namespace quire::server
