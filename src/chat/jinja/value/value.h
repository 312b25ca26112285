// A Value is what a template computes with: Python's None, bool, int, float, str, list, tuple, dict
// and range, and what Jinja adds (undefined, markup, namespace, macro, loop). Values do not change,
// except namespace, loop, cycler, joiner and the position of an iterator, because the sandbox of
// the Hugging Face environment refuses all other mutation. So values form no cycles except through
// namespaces and macros, which the interpreter empties when it ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value/heap.h"

namespace quire::jinja {

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kUInt /* above int64 */,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,
  kIterator,
  kNamespace,
  kMacro,
  kLoop,
  kMethod,
  kFunction,
  kCycler,
  kJoiner
};

enum class Function : uint8_t {
  kRange,
  kDict,
  kNamespace,
  kRaiseException,
  kStrftimeNow,
  kCycler,
  kJoiner
};

struct Node;
struct StringNode;
struct SequenceNode;
struct DictNode;
struct RangeNode;
struct IteratorNode;
struct NamespaceNode;
struct MethodNode;
struct CyclerNode;
struct JoinerNode;

// Containers may nest this deep, so that no recursion over a value can exhaust the stack.
inline constexpr int kMaxValueDepth = 200;

class Value {
 public:
  Value() = default;  // None
  static Value boolean(bool b) { return Value(Kind::kBool, b ? 1 : 0); }
  static Value integer(int64_t i) { return Value(Kind::kInt, i); }
  static Value large(uint64_t u);
  static Value real(double d);
  static Value function(Function f) { return Value(Kind::kFunction, static_cast<int64_t>(f)); }
  static Value node(Kind kind, std::shared_ptr<Node> node);
  // Makes a literal of a template. All renderings share it, so it is charged to no heap.
  static Value literal(std::string text);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_markup() const { return markup_; }  // the subclass of str that |safe and |escape make
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat || kind_ == Kind::kUInt; }
  bool is_sequence_node() const {
    return kind_ == Kind::kList || kind_ == Kind::kTuple || kind_ == Kind::kView;
  }

  // The value must have the right kind.
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  uint64_t as_uint() const { return static_cast<uint64_t>(int_); }
  double as_float() const;
  Function as_function() const { return static_cast<Function>(int_); }
  std::string_view text() const;
  int64_t length() const;  // of a string, in code points
  const std::vector<Value>& items() const;
  const DictNode& dict() const;
  const RangeNode& range() const;
  template <typename T>
  T& get() const {
    return static_cast<T&>(*node_);
  }
  const Node* identity() const { return node_.get(); }
  const std::shared_ptr<Node>& shared() const { return node_; }

  Value with_markup(bool markup) const {
    Value copy = *this;
    copy.markup_ = markup;
    return copy;
  }

 private:
  Value(Kind kind, int64_t i) : kind_(kind), int_(i) {}
  Kind kind_ = Kind::kNone;
  bool markup_ = false;
  int64_t int_ = 0;  // the bits of a float are stored here
  std::shared_ptr<Node> node_;
};

using Entry = std::pair<Value, Value>;

// Node is the base of everything on a heap. Its destructor gives its bytes back.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node() {
    if (heap != nullptr) heap->give_back(bytes);
  }
  void charge(Heap& h, int64_t count) {
    h.take(count);
    heap = &h;
    bytes += count;
  }
  Heap* heap = nullptr;
  int64_t bytes = 0;
};

struct StringNode final : Node {
  std::string text;
  int64_t length = 0;  // code points
};

struct SequenceNode final : Node {
  std::vector<Value> items;
  int depth = 1;
  bool is_group = false;       // an item of groupby: .grouper and .list name its two items
  std::string_view view_name;  // for a kView: "dict_items" …
};

struct DictNode final : Node {
  std::vector<Entry> entries;    // in order of insertion
  std::vector<uint32_t> sorted;  // positions in key order, for lookups
  int depth = 1;
};

struct RangeNode final : Node {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};

struct IteratorNode final : Node {  // a generator, which can be walked once
  std::vector<Value> items;
  size_t position = 0;
  int depth = 1;
};

struct NamespaceNode final : Node {
  std::vector<std::pair<std::string, Value>> attributes;
};

struct MethodNode final : Node {
  Value self;
  std::string name;
};

struct CyclerNode final : Node {
  std::vector<Value> items;
  size_t position = 0;
  int depth = 1;
};

struct JoinerNode final : Node {
  Value separator;
  bool used = false;
  int depth = 1;
};

struct UndefinedNode final : Node {
  std::string message;
};

// These functions make values and charge them to the heap.
Value make_string(Heap& heap, std::string text);
Value make_list(Heap& heap, std::vector<Value> items);
Value make_tuple(Heap& heap, std::vector<Value> items);
Value make_view(Heap& heap, std::string_view name, std::vector<Value> items);
Value make_iterator(Heap& heap, std::vector<Value> items);
// Of equal keys the last value counts. Unhashable keys are an error.
Value make_dict(Heap& heap, std::vector<Entry> entries);
Value make_range(Heap& heap, int64_t start, int64_t stop, int64_t step);
Value make_method(Heap& heap, Value self, std::string_view name);
Value make_undefined(Heap& heap, std::string message);
Value make_cycler(Heap& heap, std::vector<Value> items);
Value make_joiner(Heap& heap, Value separator);

// Fails with a message such as "'x' is undefined", in Jinja's words.
[[noreturn]] void fail_undefined(const Value& value);

// Returns type(value).__name__.
std::string_view type_name(const Value& value);

// Returns nullptr when the key is absent. An unhashable key is an error.
const Value* find_key(Heap& heap, const DictNode& dict, const Value& key);
const Value* find_key(const DictNode& dict, std::string_view key);

// Orders hashable values so that values that are equal in Python compare as equal. Unhashable
// values are an error.
int compare_keys(const Value& a, const Value& b);
void require_hashable(const Value& value);

}  // namespace quire::jinja
