// A SchemaDocument is a parsed schema that resolves references within itself.
#pragma once

#include <boost/json.hpp>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

namespace quire::grammar {

namespace json = boost::json;

class SchemaDocument {
 public:
  static Result<SchemaDocument> parse(std::string_view text);

  const json::value& root() const { return *root_; }
  // Returns the schema that the reference `keyword` ($ref, $dynamicRef or $recursiveRef) of
  // `schema` names.
  Result<const json::value*> resolve(const json::object& schema, std::string_view keyword) const;
  // Returns the schemas that apply to the same value as `schema` itself, not to its members or
  // items: targets of references, and alternatives.
  Result<std::vector<const json::value*>> in_place_subschemas(const json::object& schema) const;
  // Returns the position of a value in the document's text, counted over all values.
  size_t order_of(const json::value& value) const;
  // Returns a JSON pointer to `schema`, for messages.
  std::string path_of(const json::value& schema) const;
  // Returns whether $ref hides the keywords beside it, as up to draft 7.
  bool ref_hides_siblings() const { return ref_hides_siblings_; }

 private:
  void index();
  void number_values();
  const json::value* find_pointer(const json::value& from, std::string_view pointer) const;

  std::unique_ptr<json::value> root_;
  bool ref_hides_siblings_ = false;
  std::unordered_map<const json::value*, size_t> order_of_;
  std::unordered_map<const json::object*, std::string> base_of_;   // for objects with references
  std::map<std::string, const json::value*, std::less<>> by_uri_;  // $id, and $id#anchor
  std::map<std::string, int, std::less<>> dynamic_anchors_;        // how many schemas have the name
};

}  // namespace quire::grammar
