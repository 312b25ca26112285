#include "grammar/dialects/structural_tag.h"

#include <algorithm>
#include <boost/json.hpp>

#include "grammar/json_schema/json_schema.h"
#include "grammar/read/ebnf.h"
#include "grammar/read/regex.h"
#include "grammar/rules/encoding.h"

namespace quire::grammar {
namespace {

namespace json = boost::json;

constexpr size_t kMaxDepth = 128;  // of the JSON text; bounds recursion
constexpr uint64_t kMaxRepeats = 1'000'000;

class StructuralTagReader {
 public:
  StructuralTagReader(ExprStore& store, Rules& rules, const JsonOptions& options,
                      const std::vector<std::string>& special_tokens)
      : store_(store),
        rules_(rules),
        options_(options),
        special_tokens_(special_tokens),
        encoder_(store, TextForm::kPlain) {}

  Result<Fragment> tag_document(const json::value& value) {
    const json::object* object = value.if_object();
    if (object == nullptr) return invalid_argument("expected an object");
    if (const json::value* format = object->if_contains("format"))
      return format_of(*format, "format");
    if (object->contains("structures")) return old_form(*object);
    return invalid_argument("expected 'format', or 'structures' and 'triggers'");
  }

 private:
  struct Member {
    const json::value& value;
    std::string path;
  };

  static Status error(const std::string& path, std::string_view what) {
    return invalid_argument("{}: {}", path, what);
  }
  static Result<Member> member(const json::object& object, std::string_view name,
                               const std::string& path) {
    const json::value* value = object.if_contains(name);
    if (value == nullptr) return error(path, fmt::format("expected '{}'", name));
    return Member{*value, path + "." + std::string(name)};
  }
  static Result<std::string> text(const json::object& object, std::string_view name,
                                  const std::string& path) {
    QUIRE_ASSIGN_OR_RETURN(const Member found, member(object, name, path));
    if (!found.value.is_string()) return error(found.path, "expected a string");
    return std::string(found.value.get_string());
  }
  static Result<bool> flag(const json::object& object, std::string_view name,
                           const std::string& path) {
    const json::value* value = object.if_contains(name);
    if (value == nullptr || value->is_null()) return false;
    if (!value->is_bool()) return error(path + "." + std::string(name), "expected true or false");
    return value->get_bool();
  }
  // Returns a list of texts; absent and null are an empty list.
  static Result<std::vector<std::string>> texts(const json::object& object, std::string_view name,
                                                const std::string& path) {
    std::vector<std::string> out;
    const json::value* value = object.if_contains(name);
    if (value == nullptr || value->is_null()) return out;
    const std::string full = path + "." + std::string(name);
    if (!value->is_array()) return error(full, "expected a list of strings");
    for (const json::value& item : value->get_array()) {
      if (!item.is_string() || item.get_string().empty()) {
        return error(full, "expected strings that are not empty");
      }
      out.emplace_back(item.get_string());
    }
    return out;
  }
  static Status only(const json::object& object, const std::string& path,
                     std::initializer_list<std::string_view> names) {
    for (const auto& [name, value] : object) {
      const std::string_view key(name.data(), name.size());
      if (key == "type" || value.is_null()) continue;
      if (std::find(names.begin(), names.end(), key) == names.end()) {
        return error(path + "." + std::string(key), "not supported");
      }
    }
    return {};
  }

  // Returns the expression of a literal text; special tokens in it match only as tokens.
  ExprId marker(std::string_view text) {
    std::string bytes;
    while (!text.empty()) {
      const std::string* longest = nullptr;
      for (const std::string& token : special_tokens_) {
        const bool is_longer = longest == nullptr || token.size() > longest->size();
        if (text.starts_with(token) && is_longer) longest = &token;
      }
      if (longest != nullptr) bytes += kSpecialTokenMark;
      const size_t length = longest != nullptr ? longest->size() : 1;
      bytes += text.substr(0, length);
      text.remove_prefix(length);
    }
    return store_.literal(bytes);
  }

  // Returns an expression for any text in which none of `excludes` occurs.
  ExprId free_text(const std::vector<std::string>& excludes) {
    const ExprId any = encoder_.any_text();
    std::vector<ExprId> found;
    found.reserve(excludes.size());
    for (const std::string& exclude : excludes) found.push_back(store_.literal(exclude));
    if (found.empty()) return any;
    const ExprId contains[] = {ExprStore::kAnything, store_.any_of(std::move(found)),
                               ExprStore::kAnything};
    return store_.all_of({any, store_.complement(store_.concat(contains))});
  }

  Result<Fragment> format_of(const json::value& value, const std::string& path) {
    const json::object* object = value.if_object();
    if (object == nullptr) return error(path, "expected an object");
    QUIRE_ASSIGN_OR_RETURN(const std::string type, text(*object, "type", path));
    if (type == "const_string") {
      QUIRE_RETURN_IF_ERROR(only(*object, path, {"value"}));
      QUIRE_ASSIGN_OR_RETURN(const std::string literal, text(*object, "value", path));
      return rules_.terminal(marker(literal));
    }
    if (type == "json_schema") return json_schema(*object, path);
    if (type == "regex" || type == "grammar") return regular_or_grammar(*object, type, path);
    if (type == "any_text") return any_text(*object, path);
    if (type == "sequence" || type == "or") {
      QUIRE_RETURN_IF_ERROR(only(*object, path, {"elements"}));
      QUIRE_ASSIGN_OR_RETURN(const Member list, member(*object, "elements", path));
      QUIRE_ASSIGN_OR_RETURN(const std::vector<Fragment> parts, formats_of(list));
      return type == "or" ? rules_.any_of(parts) : rules_.sequence(parts);
    }
    if (type == "optional" || type == "plus" || type == "star" || type == "repeat") {
      return repeated(*object, type, path);
    }
    if (type == "tag") return tag(*object, path);
    if (type == "triggered_tags") return triggered_tags(*object, path);
    if (type == "tags_with_separator") return tags_with_separator(*object, path);
    return error(path + ".type", fmt::format("'{}' is not supported", type));
  }

  Result<std::vector<Fragment>> formats_of(const Member& list) {
    if (!list.value.is_array() || list.value.get_array().empty()) {
      return error(list.path, "expected a list that is not empty");
    }
    std::vector<Fragment> out;
    for (const json::value& item : list.value.get_array()) {
      QUIRE_ASSIGN_OR_RETURN(const Fragment part,
                             format_of(item, fmt::format("{}[{}]", list.path, out.size())));
      out.push_back(part);
    }
    return out;
  }

  Result<Fragment> schema_text(const json::value& schema, const std::string& path) {
    if (schema.is_bool() && schema.get_bool()) return schema_text(json::object(), path);
    auto rule = json_schema_rule(store_, rules_, json::serialize(schema), options_);
    if (!rule.ok()) return rule.status().with_context(path);
    return rules_.call(*rule);
  }

  Result<Fragment> json_schema(const json::object& object, const std::string& path) {
    QUIRE_RETURN_IF_ERROR(only(object, path, {"json_schema", "style"}));
    if (const json::value* style = object.if_contains("style");
        style != nullptr && *style != json::value("json")) {
      return error(path + ".style", "expected \"json\"");
    }
    QUIRE_ASSIGN_OR_RETURN(const Member schema, member(object, "json_schema", path));
    return schema_text(schema.value, schema.path);
  }

  Result<Fragment> regular_or_grammar(const json::object& object, const std::string& type,
                                      const std::string& path) {
    const std::string_view name = type == "regex" ? "pattern" : "grammar";
    QUIRE_RETURN_IF_ERROR(only(object, path, {name}));
    QUIRE_ASSIGN_OR_RETURN(const std::string source, text(object, name, path));
    if (type == "grammar") {
      auto rule = ebnf_rule(store_, rules_, source);
      if (!rule.ok()) return rule.status().with_context(path);
      return rules_.call(*rule);
    }
    auto expr = regex_expr(encoder_, source);
    if (!expr.ok()) return expr.status().with_context(path);
    return rules_.terminal(*expr);
  }

  Result<Fragment> any_text(const json::object& object, const std::string& path) {
    QUIRE_RETURN_IF_ERROR(only(object, path, {"excludes"}));
    QUIRE_ASSIGN_OR_RETURN(const auto excludes, texts(object, "excludes", path));
    return rules_.terminal(free_text(excludes));
  }

  Result<uint64_t> count(const json::object& object, std::string_view name, uint64_t missing,
                         const std::string& path) {
    const json::value* value = object.if_contains(name);
    if (value == nullptr || value->is_null()) return missing;
    if (value->is_int64() && value->get_int64() == -1) return uint64_t{kUnbounded};
    if (!value->is_int64() || value->get_int64() < 0 ||
        static_cast<uint64_t>(value->get_int64()) > kMaxRepeats) {
      return error(path + "." + std::string(name),
                   fmt::format("expected a count of at most {}", kMaxRepeats));
    }
    return static_cast<uint64_t>(value->get_int64());
  }

  Result<Fragment> repeated(const json::object& object, const std::string& type,
                            const std::string& path) {
    QUIRE_RETURN_IF_ERROR(only(object, path, {"content", "min", "max"}));
    QUIRE_ASSIGN_OR_RETURN(const Member content, member(object, "content", path));
    QUIRE_ASSIGN_OR_RETURN(const Fragment part, format_of(content.value, content.path));
    if (type == "optional") return rules_.optional(part);
    if (type == "star") return rules_.star(part);
    uint64_t min = 1, max = kUnbounded;
    if (type == "repeat") {
      QUIRE_ASSIGN_OR_RETURN(min, count(object, "min", 0, path));
      QUIRE_ASSIGN_OR_RETURN(max, count(object, "max", kUnbounded, path));
      if (min > max) return error(path, "expected min <= max");
    }
    return rules_.repeat(part, rules_.empty(), static_cast<uint32_t>(min),
                         static_cast<uint32_t>(max));
  }

  // `end` is a text, or a list of texts, one of which ends the tag.
  Result<Fragment> tag(const json::object& object, const std::string& path) {
    QUIRE_RETURN_IF_ERROR(only(object, path, {"begin", "content", "end"}));
    QUIRE_ASSIGN_OR_RETURN(const std::string begin, text(object, "begin", path));
    QUIRE_ASSIGN_OR_RETURN(const Member content, member(object, "content", path));
    QUIRE_ASSIGN_OR_RETURN(const Member end, member(object, "end", path));
    std::vector<std::string> ends;
    if (end.value.is_string()) {
      ends.emplace_back(end.value.get_string());
    } else {
      QUIRE_ASSIGN_OR_RETURN(ends, texts(object, "end", path));
    }
    if (ends.empty()) return error(end.path, "expected a string or a list of strings");
    QUIRE_ASSIGN_OR_RETURN(const Fragment body, content_until(content, ends));
    std::vector<ExprId> closings;
    closings.reserve(ends.size());
    for (const std::string& text : ends) closings.push_back(marker(text));
    const Fragment parts[] = {rules_.terminal(marker(begin)), body,
                              rules_.terminal(store_.any_of(std::move(closings)))};
    return rules_.sequence(parts);
  }

  // Returns the content of a tag. Free text continues until the end of the tag.
  Result<Fragment> content_until(const Member& content, const std::vector<std::string>& ends) {
    const json::object* object = content.value.if_object();
    const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
    if (type == nullptr || *type != json::value("any_text")) {
      return format_of(content.value, content.path);
    }
    QUIRE_RETURN_IF_ERROR(only(*object, content.path, {"excludes"}));
    QUIRE_ASSIGN_OR_RETURN(auto excludes, texts(*object, "excludes", content.path));
    for (const std::string& end : ends) {
      if (!end.empty()) excludes.push_back(end);
    }
    return rules_.terminal(free_text(excludes));
  }

  Result<std::vector<Fragment>> tags_of(const json::object& object, const std::string& path,
                                        const std::vector<std::string>* triggers) {
    QUIRE_ASSIGN_OR_RETURN(const Member list, member(object, "tags", path));
    if (!list.value.is_array() || list.value.get_array().empty()) {
      return error(list.path, "expected a list of tags");
    }
    std::vector<Fragment> out;
    for (const json::value& item : list.value.get_array()) {
      const std::string item_path = fmt::format("{}[{}]", list.path, out.size());
      if (!item.is_object()) return error(item_path, "expected a tag");
      QUIRE_ASSIGN_OR_RETURN(const std::string begin, text(item.get_object(), "begin", item_path));
      const auto starts_it = [&](const std::string& trigger) { return begin.starts_with(trigger); };
      if (triggers != nullptr && std::none_of(triggers->begin(), triggers->end(), starts_it)) {
        return error(item_path + ".begin", "expected one of the triggers at its start");
      }
      QUIRE_ASSIGN_OR_RETURN(const Fragment part, tag(item.get_object(), item_path));
      out.push_back(part);
    }
    return out;
  }

  // Returns one rule of these alternatives, which all places of a format call.
  RuleId one_of(const std::vector<Fragment>& tags) {
    const RuleId rule = rules_.add_rule();
    rules_.define(rule, rules_.any_of(tags));
    return rule;
  }

  Result<Fragment> triggered_tags(const json::object& object, const std::string& path) {
    QUIRE_RETURN_IF_ERROR(
        only(object, path, {"triggers", "tags", "at_least_one", "stop_after_first", "excludes"}));
    QUIRE_ASSIGN_OR_RETURN(const auto triggers, texts(object, "triggers", path));
    if (triggers.empty()) return error(path + ".triggers", "expected a list of strings");
    QUIRE_ASSIGN_OR_RETURN(const auto tags, tags_of(object, path, &triggers));
    QUIRE_ASSIGN_OR_RETURN(const bool at_least_one, flag(object, "at_least_one", path));
    QUIRE_ASSIGN_OR_RETURN(const bool stops, flag(object, "stop_after_first", path));
    QUIRE_ASSIGN_OR_RETURN(auto excludes, texts(object, "excludes", path));
    excludes.insert(excludes.end(), triggers.begin(), triggers.end());
    return between_text(tags, free_text(excludes), at_least_one, stops);
  }

  // With at_least_one the text begins with a tag; with stop_after_first it ends with the first tag.
  Fragment between_text(const std::vector<Fragment>& tags, ExprId text, bool at_least_one,
                        bool stops_after_first) {
    const RuleId tag = one_of(tags);
    if (stops_after_first && at_least_one) return rules_.call(tag);
    if (stops_after_first) {
      const Fragment parts[] = {rules_.terminal(text), rules_.optional(rules_.call(tag))};
      return rules_.sequence(parts);
    }
    const Fragment more[] = {rules_.call(tag), rules_.terminal(text)};
    std::vector<Fragment> parts;
    if (at_least_one) parts.push_back(rules_.call(tag));
    parts.push_back(rules_.terminal(text));
    parts.push_back(rules_.star(rules_.sequence(more)));
    return rules_.sequence(parts);
  }

  Result<Fragment> tags_with_separator(const json::object& object, const std::string& path) {
    QUIRE_RETURN_IF_ERROR(
        only(object, path, {"tags", "separator", "at_least_one", "stop_after_first"}));
    QUIRE_ASSIGN_OR_RETURN(const auto tags, tags_of(object, path, nullptr));
    QUIRE_ASSIGN_OR_RETURN(const std::string separator, text(object, "separator", path));
    QUIRE_ASSIGN_OR_RETURN(const bool at_least_one, flag(object, "at_least_one", path));
    QUIRE_ASSIGN_OR_RETURN(const bool stops, flag(object, "stop_after_first", path));
    const RuleId tag = one_of(tags);
    Fragment all = rules_.call(tag);
    if (!stops) {
      const Fragment more[] = {rules_.terminal(marker(separator)), rules_.call(tag)};
      const Fragment parts[] = {all, rules_.star(rules_.sequence(more))};
      all = rules_.sequence(parts);
    }
    return at_least_one ? all : rules_.optional(all);
  }

  Result<Fragment> old_form(const json::object& object) {
    QUIRE_RETURN_IF_ERROR(only(object, "structural_tag", {"structures", "triggers"}));
    QUIRE_ASSIGN_OR_RETURN(const auto triggers, texts(object, "triggers", "structural_tag"));
    if (triggers.empty()) return error("triggers", "expected a list of strings");
    const json::value& list = object.at("structures");
    if (!list.is_array() || list.get_array().empty()) {
      return error("structures", "expected a list that is not empty");
    }
    std::vector<Fragment> tags;
    for (const json::value& item : list.get_array()) {
      const std::string path = fmt::format("structures[{}]", tags.size());
      if (!item.is_object()) return error(path, "expected an object");
      QUIRE_ASSIGN_OR_RETURN(const std::string begin, text(item.get_object(), "begin", path));
      QUIRE_ASSIGN_OR_RETURN(const std::string end, text(item.get_object(), "end", path));
      QUIRE_ASSIGN_OR_RETURN(const Member schema, member(item.get_object(), "schema", path));
      const auto starts_it = [&](const std::string& trigger) { return begin.starts_with(trigger); };
      if (std::none_of(triggers.begin(), triggers.end(), starts_it)) {
        return error(path + ".begin", "expected one of the triggers at its start");
      }
      QUIRE_ASSIGN_OR_RETURN(const Fragment body, schema_text(schema.value, schema.path));
      const Fragment parts[] = {rules_.terminal(marker(begin)), body, rules_.terminal(marker(end))};
      tags.push_back(rules_.sequence(parts));
    }
    return between_text(tags, free_text(triggers), false, false);
  }

  ExprStore& store_;
  Rules& rules_;
  const JsonOptions& options_;
  const std::vector<std::string>& special_tokens_;
  Encoder encoder_;
};

}  // namespace

Result<RuleId> structural_tag_rule(ExprStore& store, Rules& rules, std::string_view text,
                                   const JsonOptions& options,
                                   const std::vector<std::string>& special_tokens) {
  boost::system::error_code code;
  json::parse_options parse_options;
  parse_options.max_depth = kMaxDepth;
  const json::value value =
      json::parse(json::string_view(text.data(), text.size()), code, {}, parse_options);
  if (code) return invalid_argument("structural_tag: expected JSON: {}", code.message());
  QUIRE_ASSIGN_OR_RETURN(
      const Fragment body,
      StructuralTagReader(store, rules, options, special_tokens).tag_document(value));
  const RuleId root = rules.add_rule();
  rules.define(root, body);
  return root;
}

}  // namespace quire::grammar
