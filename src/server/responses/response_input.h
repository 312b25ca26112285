// These functions check the items of a response's conversation, give them ids, and turn them into
// messages of a chat.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "server/http/api_error.h"

namespace quire::server {

// Returns the `input` of a request as items: a text becomes a message of the user. Items without an
// id get one that begins with `response_id`.
ApiResult<boost::json::array> read_input(boost::json::value input, std::string_view response_id);

// ItemConversation appends items to the messages of a chat. Adjacent calls, reasoning and text of
// the assistant become one message, even across calls of add().
class ItemConversation {
 public:
  explicit ItemConversation(boost::json::array& messages) : messages_(messages) {}
  // `content` has the form of a chat message's content.
  void add_message(std::string_view role, boost::json::value content);
  void add(const boost::json::array& items);

 private:
  void add_item(const boost::json::object& item);
  boost::json::object& assistant();

  boost::json::array& messages_;
  bool is_open_ = false;  // the last message is the assistant's and may grow
};

}  // namespace quire::server
