#include "chat/jinja/value/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

// A Printer appends to one string, and charges the heap as it grows, before the memory is taken.
class Printer {
 public:
  explicit Printer(Heap& heap) : heap_(heap) {}

  void add(std::string_view text) {
    heap_.tick_bytes(text.size());
    heap_.check_room(out_.size() + text.size());
    out_ += text;
  }
  std::string take() { return std::move(out_); }

  void repr(const Value& value, int depth) {
    // Only namespaces can make this deeper than kMaxValueDepth.
    if (depth > kMaxValueDepth + 50) fail_limit("values nest too deeply to print");
    switch (value.kind()) {
      case Kind::kUndefined:
        return add("Undefined");
      case Kind::kNone:
        return add("None");
      case Kind::kBool:
        return add(value.as_bool() ? "True" : "False");
      case Kind::kInt:
        return add(fmt::format("{}", value.as_int()));
      case Kind::kUInt:
        return add(fmt::format("{}", value.as_uint()));
      case Kind::kFloat:
        return add(float_repr(value.as_float()));
      case Kind::kString:
        if (!value.is_markup()) return add(quoted(value.text()));
        return add(fmt::format("Markup({})", quoted(value.text())));
      case Kind::kList:
        return sequence("[", value.items(), "]", depth);
      case Kind::kTuple:
        return sequence("(", value.items(), value.items().size() == 1 ? ",)" : ")", depth);
      case Kind::kView:
        add(value.get<SequenceNode>().view_name);
        return sequence("([", value.items(), "])", depth);
      case Kind::kDict:
        return dict(value.dict().entries, depth);
      case Kind::kRange:
        return range(value.range());
      case Kind::kNamespace:
        return name_space(value.get<NamespaceNode>(), depth);
      default:
        return add(fmt::format("<{} object>", type_name(value)));
    }
  }

 private:
  void sequence(std::string_view open, const std::vector<Value>& items, std::string_view close,
                int depth) {
    add(open);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(", ");
      repr(items[i], depth + 1);
    }
    add(close);
  }

  void dict(const std::vector<Entry>& entries, int depth) {
    add("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(", ");
      repr(entries[i].first, depth + 1);
      add(": ");
      repr(entries[i].second, depth + 1);
    }
    add("}");
  }

  void range(const RangeNode& range) {
    add(range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                        : fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
  }

  void name_space(const NamespaceNode& node, int depth) {
    add("<Namespace {");
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      if (i > 0) add(", ");
      add(quoted(node.attributes[i].first));
      add(": ");
      repr(node.attributes[i].second, depth + 1);
    }
    add("}>");
  }

  Heap& heap_;
  std::string out_;
};

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style) {}

  std::string take() { return std::move(out_); }

  void write(const Value& value, int level) {
    heap_.tick();
    switch (value.kind()) {
      case Kind::kNone:
        return add("null");
      case Kind::kBool:
        return add(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return add(fmt::format("{}", value.as_int()));
      case Kind::kUInt:
        return add(fmt::format("{}", value.as_uint()));
      case Kind::kFloat:
        return add(number(value.as_float()));
      case Kind::kString:
        return string(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return array(value.items(), level);
      case Kind::kDict:
        return object(value.dict(), level);
      default:
        fail("Object of type {} is not JSON serializable", type_name(value));
    }
  }

 private:
  void add(std::string_view text) {
    heap_.tick_bytes(text.size());
    heap_.check_room(out_.size() + text.size());
    out_ += text;
  }

  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    return float_repr(d);
  }

  void new_line(int level) {
    if (!style_.has_indent) return;
    add("\n");
    for (int i = 0; i < level; ++i) add(style_.indent);
  }

  void array(const std::vector<Value>& items, int level) {
    if (items.empty()) return add("[]");
    add("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      new_line(level + 1);
      write(items[i], level + 1);
    }
    new_line(level);
    add("]");
  }

  void object(const DictNode& dict, int level) {
    if (dict.entries.empty()) return add("{}");
    std::vector<const Entry*> entries;
    for (const Entry& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const Entry* a, const Entry* b) {
        return less_than(heap_, a->first, b->first);
      });
    }
    add("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      new_line(level + 1);
      string(key_text(entries[i]->first));
      add(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    add("}");
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return std::string(key.text());
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return key.as_bool() ? "true" : "false";
      case Kind::kInt:
        return fmt::format("{}", key.as_int());
      case Kind::kUInt:
        return fmt::format("{}", key.as_uint());
      case Kind::kFloat:
        return number(key.as_float());
      default:
        fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
  }

  void escape(std::string& out, char32_t code, std::string_view bytes) const {
    switch (code) {
      case '"':
        out += "\\\"";
        return;
      case '\\':
        out += "\\\\";
        return;
      case '\n':
        out += "\\n";
        return;
      case '\r':
        out += "\\r";
        return;
      case '\t':
        out += "\\t";
        return;
      case '\b':
        out += "\\b";
        return;
      case '\f':
        out += "\\f";
        return;
      default:
        break;
    }
    if (code >= 0x20 && (code < 0x7f || !style_.ensure_ascii)) {
      out += bytes;
    } else if (code == 0x7f) {
      out += '\x7f';
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      const uint32_t rest = static_cast<uint32_t>(code) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
  }

  void string(std::string_view text) {
    heap_.tick_bytes(text.size());
    std::string out = "\"";
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      const char32_t code = next_code_point(text, i);
      escape(out, code, text.substr(begin, i - begin));
    }
    out += '"';
    add(out);
  }

  Heap& heap_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  // The text is "-d.ddde-XX": the shortest digits that read back as the same number.
  const std::string_view all(buffer, static_cast<size_t>(end - buffer));
  const size_t e = all.find('e');
  const int exponent = std::atoi(std::string(all.substr(e + 1)).c_str());
  std::string sign, digits;
  for (const char c : all.substr(0, e)) {
    if (c == '-') sign = "-";
    if (c >= '0' && c <= '9') digits += c;
  }
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (count > 1) mantissa += "." + digits.substr(1);
    return fmt::format("{}{}e{}{:02d}", sign, mantissa, exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto point = static_cast<size_t>(exponent + 1);
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

std::string to_repr(Heap& heap, const Value& value) {
  Printer printer(heap);
  printer.repr(value, 0);
  return printer.take();
}

std::string to_str(Heap& heap, const Value& value) {
  if (value.is_string()) {
    heap.check_room(value.text().size());
    heap.tick_bytes(value.text().size());
    return std::string(value.text());
  }
  if (value.is_undefined()) return "";
  return to_repr(heap, value);
}

Value as_string(Heap& heap, const Value& value) {
  return value.is_string() ? value : make_string(heap, to_str(heap, value));
}

std::string to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  JsonWriter writer(heap, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace quire::jinja
