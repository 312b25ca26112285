// ResponseEventBuilder turns the chunks of a chat into the events of OpenAI's Responses API. The
// response in the last event is also the answer without streaming.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/api_error.h"

namespace quire::server {

using ResponseEvents = std::vector<boost::json::object>;

// It opens and closes output items, one at a time. Items have the same ids wherever they are
// printed.
class ResponseEventBuilder {
 public:
  // `response` repeats the request and has an empty output.
  explicit ResponseEventBuilder(boost::json::object response);

  void begin(ResponseEvents& out);
  void add(const boost::json::object& chunk, ResponseEvents& out);
  // Adds the last event: completed or incomplete.
  void finish(int64_t now_s, ResponseEvents& out);
  // Adds the last event of a response that cannot go on.
  void fail(const ApiError& error, ResponseEvents& out);

  const boost::json::object& response() const { return response_; }
  // Returns about how many bytes the output takes so far.
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  enum class Item : uint8_t { kNone, kReasoning, kMessage, kCall };

  void add_usage(const boost::json::object& usage);
  void add_text(Item kind, std::string_view text, boost::json::array logprobs, ResponseEvents& out);
  void add_call(const boost::json::object& call, ResponseEvents& out);
  void open(Item kind, boost::json::object item, ResponseEvents& out);
  void close(std::string_view status, ResponseEvents& out);
  boost::json::object& item();
  std::string item_id(std::string_view prefix) const;
  int64_t output_index() const;
  // Returns an event about the open item.
  boost::json::object about_item(std::string_view type) const;
  boost::json::object about_part(std::string_view type) const;
  void push(boost::json::object event, ResponseEvents& out);
  void push_response(std::string_view type, ResponseEvents& out);

  boost::json::object response_;
  Item open_ = Item::kNone;
  bool is_cut_ = false;
  int64_t sequence_ = 0;
  uint64_t held_bytes_ = 0;
};

}  // namespace quire::server
