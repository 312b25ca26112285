#include "grammar/json_schema/document.h"

#include <charconv>
#include <vector>

namespace quire::grammar {
namespace {

constexpr size_t kMaxDepth = 128;

const std::string_view kReferences[] = {"$ref", "$dynamicRef", "$recursiveRef"};

std::string_view string_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : "";
}

// Resolves a reference by RFC 3986, section 5.3, for the forms that schemas use.
std::string resolve_uri(std::string_view base, std::string_view reference) {
  const size_t colon = reference.find(':');
  if (colon != reference.npos && reference.find_first_of("/?#") > colon) {
    return std::string(reference);
  }
  base = base.substr(0, base.find('#'));
  if (reference.empty() || reference.starts_with('#')) return std::string(base).append(reference);
  const size_t scheme = base.find("://");
  const size_t path = scheme == base.npos ? 0 : base.find('/', scheme + 3);
  if (reference.starts_with('/')) return std::string(base.substr(0, path)).append(reference);
  const size_t slash = base.rfind('/');
  if (slash == base.npos || (scheme != base.npos && slash < scheme + 3)) {
    return scheme == base.npos ? std::string(reference) : fmt::format("{}/{}", base, reference);
  }
  return std::string(base.substr(0, slash + 1)).append(reference);
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const char* hex = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string unescaped_token(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      out += token[++i] == '0' ? '~' : '/';
    } else {
      out += token[i];
    }
  }
  return out;
}

}  // namespace

Result<SchemaDocument> SchemaDocument::parse(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  json::value root = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error) return invalid_argument("schema: expected JSON: {}", error.message());
  if (!root.is_object() && !root.is_bool()) {
    return invalid_argument("schema: expected an object or a boolean");
  }
  SchemaDocument document;
  document.root_ = std::make_unique<json::value>(std::move(root));
  document.index();
  document.number_values();
  return document;
}

void SchemaDocument::index() {
  if (root_->is_object()) {
    const std::string_view dialect = string_of(root_->get_object(), "$schema");
    ref_hides_siblings_ = dialect.find("draft-0") != dialect.npos;
  }
  struct Place {
    const json::value* value;
    std::string base;
  };
  by_uri_[""] = root_.get();
  std::vector<Place> todo{{root_.get(), ""}};
  while (!todo.empty()) {
    Place place = std::move(todo.back());
    todo.pop_back();
    if (const json::array* array = place.value->if_array()) {
      for (const json::value& item : *array) todo.push_back({&item, place.base});
    }
    const json::object* object = place.value->if_object();
    if (object == nullptr) continue;
    const bool hides = ref_hides_siblings_ && object->contains("$ref");
    for (const std::string_view key : {"$id", "id"}) {
      const std::string_view id = string_of(*object, key);
      if (id.empty() || hides) continue;
      const std::string uri = resolve_uri(place.base, id);
      by_uri_.try_emplace(uri, place.value);
      if (!id.starts_with('#')) {
        place.base = uri.substr(0, uri.find('#'));
        by_uri_.try_emplace(place.base, place.value);
      }
    }
    for (const std::string_view key : {"$anchor", "$dynamicAnchor"}) {
      const std::string_view anchor = string_of(*object, key);
      if (anchor.empty()) continue;
      by_uri_.try_emplace(place.base + "#" + std::string(anchor), place.value);
      if (key == "$dynamicAnchor") ++dynamic_anchors_[std::string(anchor)];
    }
    for (const std::string_view key : kReferences) {
      if (object->contains(key)) base_of_[object] = place.base;
    }
    for (const auto& [key, child] : *object) {
      if (key != "enum" && key != "const") todo.push_back({&child, place.base});
    }
  }
}

void SchemaDocument::number_values() {
  std::vector<const json::value*> todo{root_.get()};
  while (!todo.empty()) {
    const json::value* const value = todo.back();
    todo.pop_back();
    order_of_.emplace(value, order_of_.size());
    if (const json::array* array = value->if_array()) {
      for (auto item = array->rbegin(); item != array->rend(); ++item) todo.push_back(&*item);
    } else if (const json::object* object = value->if_object()) {
      for (auto member = object->end(); member != object->begin();)
        todo.push_back(&(--member)->value());
    }
  }
}

size_t SchemaDocument::order_of(const json::value& value) const {
  const auto known = order_of_.find(&value);
  return known == order_of_.end() ? order_of_.size() : known->second;
}

const json::value* SchemaDocument::find_pointer(const json::value& from,
                                                std::string_view pointer) const {
  const json::value* at = &from;
  while (!pointer.empty()) {
    if (!pointer.starts_with('/')) return nullptr;
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string token = unescaped_token(pointer.substr(0, end));
    pointer.remove_prefix(end);
    if (const json::object* object = at->if_object()) {
      at = object->if_contains(token);
    } else if (const json::array* array = at->if_array()) {
      size_t index = 0;
      const auto parsed = std::from_chars(token.data(), token.data() + token.size(), index);
      if (parsed.ec != std::errc() || parsed.ptr != token.data() + token.size()) return nullptr;
      at = array->if_contains(index);
    } else {
      return nullptr;
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

Result<const json::value*> SchemaDocument::resolve(const json::object& schema,
                                                   std::string_view keyword) const {
  const std::string_view reference = string_of(schema, keyword);
  const bool is_string = schema.at(keyword).is_string();
  if (!is_string) return invalid_argument("{}: expected a string", keyword);
  const auto base = base_of_.find(&schema);
  const std::string uri = resolve_uri(base == base_of_.end() ? "" : base->second, reference);
  const size_t hash = std::min(uri.find('#'), uri.size());
  const std::string resource = uri.substr(0, hash);
  const std::string fragment = hash < uri.size() ? percent_decoded(uri.substr(hash + 1)) : "";
  if (keyword != "$ref" && dynamic_anchors_.contains(fragment) &&
      dynamic_anchors_.find(fragment)->second > 1) {
    return invalid_argument("{}: several schemas have the $dynamicAnchor '{}'", keyword, fragment);
  }
  const json::value* target = nullptr;
  if (const auto exact = by_uri_.find(resource + (fragment.empty() ? "" : "#" + fragment));
      exact != by_uri_.end()) {
    target = exact->second;
  } else if (const auto owner = by_uri_.find(resource); owner != by_uri_.end()) {
    target = find_pointer(*owner->second, fragment);
    // Many schemas have an id that is not a base URI, and use pointers from the document's root.
    if (target == nullptr && reference.starts_with('#')) target = find_pointer(*root_, fragment);
  }
  if (target == nullptr) {
    return invalid_argument("{}: '{}' is not in this document", keyword, reference);
  }
  if (!target->is_object() && !target->is_bool()) {
    return invalid_argument("{}: '{}' is not a schema", keyword, reference);
  }
  return target;
}

std::string SchemaDocument::path_of(const json::value& schema) const {
  struct Place {
    const json::value* value;
    std::string path;
  };
  std::vector<Place> todo{{root_.get(), "#"}};
  while (!todo.empty()) {
    const Place place = std::move(todo.back());
    todo.pop_back();
    if (place.value == &schema) return place.path;
    if (const json::array* array = place.value->if_array()) {
      for (size_t i = 0; i < array->size(); ++i) {
        todo.push_back({&array->at(i), fmt::format("{}/{}", place.path, i)});
      }
    } else if (const json::object* object = place.value->if_object()) {
      for (const auto& [key, child] : *object) {
        todo.push_back({&child, fmt::format("{}/{}", place.path, std::string_view(key))});
      }
    }
  }
  return "#";
}

Result<std::vector<const json::value*>> SchemaDocument::in_place_subschemas(
    const json::object& schema) const {
  std::vector<const json::value*> out;
  for (const std::string_view keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    if (!schema.contains(keyword)) continue;
    QUIRE_ASSIGN_OR_RETURN(const json::value* target, resolve(schema, keyword));
    out.push_back(target);
    if (keyword == "$ref" && ref_hides_siblings()) return out;
  }
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    const json::value* list = schema.if_contains(keyword);
    if (list == nullptr || !list->is_array()) continue;
    for (const json::value& part : list->get_array()) out.push_back(&part);
  }
  for (const std::string_view keyword : {"not", "if", "then", "else"}) {
    if (const json::value* part = schema.if_contains(keyword)) out.push_back(part);
  }
  return out;
}

}  // namespace quire::grammar
