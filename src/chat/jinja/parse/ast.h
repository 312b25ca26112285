// This is the tree of a parsed template. It does not change after parsing, and all renderings share
// it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value/operators.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

// A Symbol is the index of a variable name in Template::symbols.
using Symbol = int;

struct CallSite {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args
  ExprPtr double_star;  // **kwargs
};

enum class ExprKind : uint8_t {
  kConstant,
  kName,       // symbol
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,      // children[0][children[1]:children[2]:children[3]], absent ones null
  kCall,       // children[0](call)
  kFilter,     // children[0] | name(call); children[0] is null in filter blocks
  kTest,       // children[0] is name(call)
  kNot,
  kNegate,
  kPlus,
  kBinary,  // children[0] binary_op children[1]
  kConcat,
  kAnd,
  kOr,
  kCompare,      // children[0] compare_ops[0] children[1] compare_ops[1] children[2] …
  kConditional,  // children[1] if children[0] else children[2], which may be null
  kList,
  kTuple,
  kDict,            // key, value, key, value …
  kNamespaceTarget  // symbol.name, on the left of a set
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int height = 1;  // bounded, so that recursion over the tree is bounded too
  Symbol symbol = -1;
  BinaryOp binary_op = BinaryOp::kAdd;
  Value constant;
  std::string name;
  std::vector<ExprPtr> children;
  std::vector<CompareOp> compare_ops;
  std::unique_ptr<CallSite> call;
};

struct MacroDef {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Symbol> symbols;    // of the parameters
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // block, generation, autoescape: the body in its own scope
  kBreak,
  kContinue,
  kUnsupported  // include, import, extends: fails when it runs; text is the message
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  // The expression that is printed, iterated or assigned, the call of a call block, or the filter
  // of a filter or set block.
  ExprPtr expr;
  ExprPtr target;  // for set and for
  ExprPtr test;    // for "for … if"
  bool is_recursive = false;
  bool uses_loop = false;
  bool is_isolated = false;  // a block sees only the variables of the whole template
  Symbol symbol = -1;        // for a macro
  Body body;
  Body else_body;
  std::vector<std::pair<ExprPtr, Body>> branches;     // if, elif …
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;  // for with: target, value
  std::unique_ptr<MacroDef> macro;                    // of macro and call
};

struct Template {
  Body body;
  std::vector<std::string> symbols;
  std::map<std::string, Symbol, std::less<>> symbol_of;

  // Returns -1 when the template does not name it.
  Symbol symbol(std::string_view name) const {
    const auto it = symbol_of.find(name);
    return it == symbol_of.end() ? -1 : it->second;
  }
};

}  // namespace quire::jinja
