// An interpreter runs a parsed template over a context. It renders once, on one thread.
#pragma once

#include <boost/json/object.hpp>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/value/arguments.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

struct RunLimits {
  int64_t max_steps = 0;
  int64_t max_bytes = 0;  // of live values
  int64_t max_output_bytes = 0;
  int max_depth = 0;  // nested evaluations, which bounds the stack
};

// A Scope has the variables of one lexical level; macros keep the levels around them alive.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<Symbol, Value>> variables;
};

struct MacroNode final : Node {
  const MacroDef* definition = nullptr;
  std::shared_ptr<Scope> scope;
};

// A LoopNode is a running loop, as `loop` shows it. Items that the loop's own condition lets
// through are found as they are asked for, because the condition may read what the body sets.
struct LoopNode final : Node {
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> scope;  // around the loop
  std::vector<Value> source;     // not yet looked at from `source_position` on
  size_t source_position = 0;
  std::vector<Value> accepted;
  int64_t index0 = -1;
  int64_t depth0 = 0;
  std::vector<Value> last_changed;
  bool has_changed = false;
};

// A Buffer is text under construction, and charges the heap while it lives.
class Buffer {
 public:
  explicit Buffer(Heap& heap) : heap_(heap) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { heap_.give_back(static_cast<int64_t>(text_.size())); }
  void append(std::string_view text) {
    heap_.take(static_cast<int64_t>(text.size()));
    heap_.tick_bytes(text.size());
    text_ += text;
  }
  const std::string& text() const { return text_; }

 private:
  Heap& heap_;
  std::string text_;
};

class Interpreter {
 public:
  // `now` is what strftime_now() shows. All references outlive the interpreter.
  Interpreter(const Template& source, const RunLimits& limits, const std::tm& now);
  ~Interpreter();

  // Throws Error.
  std::string run(const boost::json::object& context);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class DepthGuard;
  class ScopeGuard;

  // Statements (execute.cc).
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  Flow execute_if(const Stmt& stmt);
  void execute_for(const Stmt& stmt);
  Flow execute_scope(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  Flow execute_set_block(const Stmt& stmt);
  Flow execute_filter_block(const Stmt& stmt);
  void execute_set(const Stmt& stmt);
  void execute_call_block(const Stmt& stmt);
  void run_loop(const Stmt& stmt, std::vector<Value> items, int64_t depth0);
  bool iterate(const std::shared_ptr<LoopNode>& loop);  // whether an iteration ran to its end
  bool accept_next(LoopNode& loop);
  void write(std::string_view text);
  void print(const Value& value);

  // Variables.
  const Value* find(Symbol symbol);
  void set(Symbol symbol, Value value);
  void assign(const Expr& target, Value value);
  void check_namespaces(const Expr& target);
  Value global(std::string_view name) const;

  // Expressions (evaluate.cc).
  Value evaluate(const Expr& expr);
  Value evaluate_inner(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_attribute(const Expr& expr);
  Value evaluate_item(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value evaluate_filter(const Expr& expr, const Value* block_input);
  Value evaluate_test(const Expr& expr);
  Value evaluate_logic(const Expr& expr);
  Value evaluate_binary(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_collection(const Expr& expr);
  Arguments evaluate_arguments(const CallSite& call);

  // Calls (call.cc).
  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const Value& callee, Arguments arguments);
  void bind_parameters(const MacroDef& macro, Arguments& arguments);
  Value call_function(Function function, const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  Value make_dict_of(const Arguments& arguments);
  Value format_now(const Arguments& arguments);
  Value call_loop(const Value& callee, const Arguments& arguments);
  Value call_loop_method(const Value& self, std::string_view name, const Arguments& arguments);
  Value loop_attribute(const Value& self, std::string_view name);
  Value make_macro(const MacroDef& definition);

  Value from_json(const boost::json::value& json, int depth);

  const Template& template_;
  const RunLimits limits_;
  const std::tm now_;
  Heap heap_;
  int depth_ = 0;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  std::vector<Value> root_values_;  // by symbol
  std::vector<bool> has_root_value_;
  std::string output_;
  Buffer* capture_ = nullptr;                  // where text goes while a block is captured
  std::vector<std::shared_ptr<Node>> cyclic_;  // what could hold itself; it is emptied at the end
  Symbol loop_symbol_ = -1, caller_symbol_ = -1, varargs_symbol_ = -1, kwargs_symbol_ = -1;
};

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter& interpreter) : depth_(interpreter.depth_) {
    if (++depth_ > interpreter.limits_.max_depth) {
      --depth_;
      fail_limit("the template recurses too deeply");
    }
    interpreter.heap_.tick();
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

// Opens a new scope below `parent` until the guard goes.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
      : interpreter_(interpreter), saved_(interpreter.scope_) {
    auto scope = std::make_shared<Scope>();
    scope->parent = std::move(parent);
    interpreter_.scope_ = std::move(scope);
  }
  explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
  ~ScopeGuard() { interpreter_.scope_ = std::move(saved_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> saved_;
};

}  // namespace quire::jinja
