// The items of a response's conversation: checked, given ids, and turned into messages of a chat.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "server/http/api_error.h"

namespace quire::server {

// `input` of a request as the items that it stands for: a text is a message of the user. Items
// without an id get one that begins with `response_id`'s.
ApiResult<boost::json::array> read_input(boost::json::value input, std::string_view response_id);

// Appends what these items say. Calls, reasoning and text of the assistant that stand together are
// one message, also across calls of add().
class ItemConversation {
 public:
  explicit ItemConversation(boost::json::array& messages) : messages_(messages) {}
  // `content`: as a chat has it.
  void add_message(std::string_view role, boost::json::value content);
  void add(const boost::json::array& items);

 private:
  void add_item(const boost::json::object& item);
  boost::json::object& assistant();

  boost::json::array& messages_;
  bool is_open_ = false;  // the last message is the assistant's and may grow
};

}  // namespace quire::server
