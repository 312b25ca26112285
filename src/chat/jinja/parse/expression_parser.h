// An ExpressionParser reads expressions with Jinja's precedence: inline if, or, and, not,
// comparison, + -, ~, * / // %, **, unary, postfix, filters and tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/parse/ast.h"
#include "chat/jinja/parse/token_stream.h"

namespace quire::jinja {

// NestingGuard counts the brackets, signs and nots around the current position, because the parser
// recurses for each of them.
class NestingGuard {
 public:
  explicit NestingGuard(int& depth) : depth_(depth) {
    constexpr int kMaxNesting = 80;
    if (++depth_ > kMaxNesting) {
      --depth_;
      fail_limit("expressions nest deeper than {}", kMaxNesting);
    }
  }
  ~NestingGuard() { --depth_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

 private:
  int& depth_;
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& stream, Template& result) : stream_(stream), template_(result) {}

  struct TupleOptions {
    bool targets_only = false;  // names and literals, as on the left of an assignment
    bool with_conditional = true;
    bool explicit_parentheses = false;
    bool with_namespace = false;
    std::string_view end_name = {};  // a name that ends the tuple, as "in"
  };

  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_tuple(const TupleOptions& options);
  ExprPtr parse_tuple() { return parse_tuple(TupleOptions{}); }
  ExprPtr parse_target(std::string_view end_name, bool with_namespace);
  // Reads filters after "|", or at once with `inline_start`. `input` may be null (filter blocks).
  // Unknown filters and tests are errors when they run, not here, because templates have branches
  // for other environments.
  ExprPtr parse_filters(ExprPtr input, bool inline_start);

  Symbol intern(const std::string& name);

  // These count the names read so far, by which loops and macros find out what they use.
  int num_loop_reads = 0, num_caller_reads = 0, num_varargs_reads = 0, num_kwargs_reads = 0;

 private:
  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr finish(ExprPtr expr) const;  // computes and checks the height
  ExprPtr make_unary(ExprKind kind, int line, ExprPtr operand) const;
  ExprPtr make_binary(BinaryOp op, int line, ExprPtr left, ExprPtr right) const;

  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_index_or_slice(ExprPtr object);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_test(ExprPtr input);
  std::unique_ptr<CallSite> parse_arguments();
  std::string parse_dotted_name();
  bool at_tuple_end(const TupleOptions& options) const;
  void check_target(const Expr& expr) const;

  TokenStream& stream_;
  Template& template_;
  int depth_ = 0;
};

}  // namespace quire::jinja
