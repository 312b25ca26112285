#include "chat/jinja/value/from_json.h"

#include <string>
#include <utility>
#include <vector>

namespace quire::jinja {
namespace {

Value convert(Heap& heap, const boost::json::value& json, int depth) {
  if (depth > kMaxValueDepth) fail_limit("the context nests deeper than {}", kMaxValueDepth);
  heap.tick();
  switch (json.kind()) {
    case boost::json::kind::null:
      return {};
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64: {
      const uint64_t number = json.get_uint64();
      if (number > static_cast<uint64_t>(INT64_MAX)) return Value::large(number);
      return Value::integer(static_cast<int64_t>(number));
    }
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string: {
      const boost::json::string& text = json.get_string();
      heap.check_room(text.size());
      return make_string(heap, std::string(text.data(), text.size()));
    }
    case boost::json::kind::array: {
      std::vector<Value> items;
      heap.check_room(json.get_array().size() * sizeof(Value));
      items.reserve(json.get_array().size());
      for (const boost::json::value& item : json.get_array())
        items.push_back(convert(heap, item, depth + 1));
      return make_list(heap, std::move(items));
    }
    case boost::json::kind::object:
      break;
  }
  std::vector<Entry> entries;
  heap.check_room(json.get_object().size() * sizeof(Entry));
  entries.reserve(json.get_object().size());
  for (const auto& [key, item] : json.get_object()) {
    Value name = make_string(heap, std::string(key.data(), key.size()));
    entries.emplace_back(std::move(name), convert(heap, item, depth + 1));
  }
  return make_dict(heap, std::move(entries));
}

}  // namespace

Value from_json(Heap& heap, const boost::json::value& json) { return convert(heap, json, 0); }

}  // namespace quire::jinja
