// Document is a parsed schema with its references resolved within the document.
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
  // The schema that `reference` ($ref, $dynamicRef or $recursiveRef) of the object `schema` names.
  Result<const json::value*> resolve(const json::object& schema, std::string_view keyword) const;
  // What a value is judged by where `schema` is applied, beside the keywords about its parts:
  // targets of references and alternatives.
  Result<std::vector<const json::value*>> in_place_subschemas(const json::object& schema) const;
  // Where a value of the document stands in its text, among all of them.
  size_t order_of(const json::value& value) const;
  // Returns a JSON pointer to `schema`, for messages.
  std::string path_of(const json::value& schema) const;
  // Up to draft 7, $ref hides the keywords beside it.
  bool ref_hides_siblings() const { return ref_hides_siblings_; }

 private:
  void index();
  void number_values();
  const json::value* find_pointer(const json::value& from, std::string_view pointer) const;

  std::unique_ptr<json::value> root_;
  bool ref_hides_siblings_ = false;
  std::unordered_map<const json::value*, size_t> order_of_;
  std::unordered_map<const json::object*, std::string> base_of_;   // of objects with references
  std::map<std::string, const json::value*, std::less<>> by_uri_;  // $id, and $id#anchor
  std::map<std::string, int, std::less<>> dynamic_anchors_;        // how many have the name
};

}  // namespace quire::grammar
