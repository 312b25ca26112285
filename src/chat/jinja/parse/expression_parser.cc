#include "chat/jinja/parse/expression_parser.h"

#include <algorithm>
#include <utility>

namespace quire::jinja {
namespace {

constexpr int kMaxHeight = 250;  // of an expression tree

bool is_constant_name(std::string_view name) {
  return name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
         name == "None";
}

}  // namespace

Symbol ExpressionParser::intern(const std::string& name) {
  const auto [it, is_new] =
      template_.symbol_of.emplace(name, static_cast<Symbol>(template_.symbols.size()));
  if (is_new) template_.symbols.push_back(name);
  return it->second;
}

ExprPtr ExpressionParser::make(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr ExpressionParser::finish(ExprPtr expr) const {
  const auto raise = [&](const ExprPtr& child) {
    if (child != nullptr) expr->height = std::max(expr->height, child->height + 1);
  };
  for (const ExprPtr& child : expr->children) raise(child);
  if (expr->call != nullptr) {
    for (const ExprPtr& argument : expr->call->positional) raise(argument);
    for (const auto& [name, argument] : expr->call->named) raise(argument);
    raise(expr->call->star);
    raise(expr->call->double_star);
  }
  if (expr->height > kMaxHeight) fail_limit("an expression is deeper than {}", kMaxHeight);
  return expr;
}

ExprPtr ExpressionParser::make_unary(ExprKind kind, int line, ExprPtr operand) const {
  ExprPtr expr = make(kind, line);
  expr->children.push_back(std::move(operand));
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::make_binary(BinaryOp op, int line, ExprPtr left, ExprPtr right) const {
  ExprPtr expr = make(ExprKind::kBinary, line);
  expr->binary_op = op;
  expr->children.push_back(std::move(left));
  expr->children.push_back(std::move(right));
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::parse_expression(bool with_conditional) {
  const NestingGuard guard(depth_);
  return with_conditional ? parse_conditional() : parse_or();
}

ExprPtr ExpressionParser::parse_conditional() {
  const NestingGuard guard(depth_);
  int line = stream_.current().line;
  ExprPtr expr = parse_or();
  while (stream_.skip_name("if")) {
    ExprPtr conditional = make(ExprKind::kConditional, line);
    conditional->children.push_back(parse_or());
    conditional->children.push_back(std::move(expr));
    conditional->children.push_back(stream_.skip_name("else") ? parse_conditional() : nullptr);
    expr = finish(std::move(conditional));
    line = stream_.current().line;
  }
  return expr;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr first = parse_and();
  if (!stream_.is_name("or")) return first;
  ExprPtr expr = make(ExprKind::kOr, first->line);
  expr->children.push_back(std::move(first));
  while (stream_.skip_name("or")) expr->children.push_back(parse_and());
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr first = parse_not();
  if (!stream_.is_name("and")) return first;
  ExprPtr expr = make(ExprKind::kAnd, first->line);
  expr->children.push_back(std::move(first));
  while (stream_.skip_name("and")) expr->children.push_back(parse_not());
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::parse_not() {
  if (!stream_.is_name("not")) return parse_compare();
  const NestingGuard guard(depth_);
  const int line = stream_.next().line;
  return make_unary(ExprKind::kNot, line, parse_not());
}

ExprPtr ExpressionParser::parse_compare() {
  constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  ExprPtr first = parse_sum();
  ExprPtr expr = make(ExprKind::kCompare, first->line);
  expr->children.push_back(std::move(first));
  while (true) {
    std::optional<CompareOp> op;
    for (const auto& [text, candidate] : kOperators) {
      if (stream_.is_operator(text)) op = candidate;
    }
    if (op) {
      stream_.next();
    } else if (stream_.skip_name("in")) {
      op = CompareOp::kIn;
    } else if (stream_.is_name("not") && stream_.ahead().type == TokenType::kName &&
               stream_.ahead().text == "in") {
      stream_.next();
      stream_.next();
      op = CompareOp::kNotIn;
    } else {
      break;
    }
    expr->compare_ops.push_back(*op);
    expr->children.push_back(parse_sum());
  }
  if (expr->compare_ops.empty()) return std::move(expr->children[0]);
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (stream_.is_operator("+") || stream_.is_operator("-")) {
    const Token& token = stream_.next();
    const BinaryOp op = token.text == "+" ? BinaryOp::kAdd : BinaryOp::kSub;
    left = make_binary(op, token.line, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!stream_.is_operator("~")) return first;
  ExprPtr expr = make(ExprKind::kConcat, first->line);
  expr->children.push_back(std::move(first));
  while (stream_.skip_operator("~")) expr->children.push_back(parse_product());
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::parse_product() {
  constexpr std::pair<std::string_view, BinaryOp> kOperators[] = {{"*", BinaryOp::kMul},
                                                                  {"/", BinaryOp::kDiv},
                                                                  {"//", BinaryOp::kFloorDiv},
                                                                  {"%", BinaryOp::kMod}};
  ExprPtr left = parse_power();
  while (true) {
    std::optional<BinaryOp> op;
    for (const auto& [text, candidate] : kOperators) {
      if (stream_.is_operator(text)) op = candidate;
    }
    if (!op) return left;
    const int line = stream_.next().line;
    left = make_binary(*op, line, std::move(left), parse_power());
  }
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary();
  while (stream_.is_operator("**")) {
    const int line = stream_.next().line;
    left = make_binary(BinaryOp::kPow, line, std::move(left), parse_unary());
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  ExprPtr expr;
  if (stream_.is_operator("-") || stream_.is_operator("+")) {
    const NestingGuard guard(depth_);
    const Token& token = stream_.next();
    const ExprKind kind = token.text == "-" ? ExprKind::kNegate : ExprKind::kPlus;
    expr = make_unary(kind, token.line, parse_unary(false));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filters ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::parse_name(bool with_namespace) {
  const Token& token = stream_.next();
  if (is_constant_name(token.text)) {
    ExprPtr expr = make(ExprKind::kConstant, token.line);
    const char first = static_cast<char>(token.text[0] | 0x20);
    if (first != 'n') expr->constant = Value::boolean(first == 't');
    return expr;
  }
  if (with_namespace && stream_.skip_operator(".")) {
    ExprPtr expr = make(ExprKind::kNamespaceTarget, token.line);
    expr->symbol = intern(token.text);
    expr->name = stream_.expect_name();
    return expr;
  }
  num_loop_reads += token.text == "loop" ? 1 : 0;
  num_caller_reads += token.text == "caller" ? 1 : 0;
  num_varargs_reads += token.text == "varargs" ? 1 : 0;
  num_kwargs_reads += token.text == "kwargs" ? 1 : 0;
  ExprPtr expr = make(ExprKind::kName, token.line);
  expr->symbol = intern(token.text);
  return expr;
}

ExprPtr ExpressionParser::parse_primary(bool with_namespace) {
  const Token& token = stream_.current();
  switch (token.type) {
    case TokenType::kName:
      return parse_name(with_namespace);
    case TokenType::kString: {
      ExprPtr expr = make(ExprKind::kConstant, token.line);
      std::string text;
      while (stream_.is(TokenType::kString)) text += stream_.next().text;
      expr->constant = Value::literal(std::move(text));
      return expr;
    }
    case TokenType::kInteger:
    case TokenType::kFloat: {
      ExprPtr expr = make(ExprKind::kConstant, token.line);
      expr->constant = token.type == TokenType::kInteger ? Value::integer(token.integer)
                                                         : Value::real(token.real);
      stream_.next();
      return expr;
    }
    default:
      break;
  }
  const NestingGuard guard(depth_);
  if (stream_.is_operator("[")) return parse_list();
  if (stream_.is_operator("{")) return parse_dict();
  if (!stream_.skip_operator("(")) fail("unexpected '{}'", TokenStream::describe(token));
  ExprPtr expr = parse_tuple({.explicit_parentheses = true});
  stream_.expect_operator(")");
  return expr;
}

bool ExpressionParser::at_tuple_end(const TupleOptions& options) const {
  if (stream_.is(TokenType::kPrintEnd) || stream_.is(TokenType::kTagEnd) ||
      stream_.is_operator(")")) {
    return true;
  }
  return !options.end_name.empty() && stream_.is_name(options.end_name);
}

ExprPtr ExpressionParser::parse_tuple(const TupleOptions& options) {
  ExprPtr tuple = make(ExprKind::kTuple, stream_.current().line);
  bool has_comma = false;
  while (!at_tuple_end(options)) {
    tuple->children.push_back(options.targets_only ? parse_primary(options.with_namespace)
                                                   : parse_expression(options.with_conditional));
    if (!stream_.is_operator(",")) break;
    stream_.next();
    has_comma = true;
  }
  if (!has_comma) {
    if (!tuple->children.empty()) return std::move(tuple->children[0]);
    if (!options.explicit_parentheses) {
      fail("Expected an expression, got '{}'", TokenStream::describe(stream_.current()));
    }
  }
  return finish(std::move(tuple));
}

void ExpressionParser::check_target(const Expr& expr) const {
  if (expr.kind == ExprKind::kName || expr.kind == ExprKind::kNamespaceTarget) return;
  if (expr.kind != ExprKind::kTuple) fail("can't assign to an expression or a constant");
  for (const ExprPtr& item : expr.children) check_target(*item);
}

ExprPtr ExpressionParser::parse_target(std::string_view end_name, bool with_namespace) {
  const int loop_reads = num_loop_reads, caller_reads = num_caller_reads,
            varargs_reads = num_varargs_reads, kwargs_reads = num_kwargs_reads;
  ExprPtr target =
      parse_tuple({.targets_only = true, .with_namespace = with_namespace, .end_name = end_name});
  check_target(*target);
  // A target is written, so its name does not count as read.
  num_loop_reads = loop_reads;
  num_caller_reads = caller_reads;
  num_varargs_reads = varargs_reads;
  num_kwargs_reads = kwargs_reads;
  return target;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr list = make(ExprKind::kList, stream_.next().line);
  while (!stream_.is_operator("]")) {
    if (!list->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator("]")) break;
    list->children.push_back(parse_expression());
  }
  stream_.expect_operator("]");
  return finish(std::move(list));
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr dict = make(ExprKind::kDict, stream_.next().line);
  while (!stream_.is_operator("}")) {
    if (!dict->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator("}")) break;
    dict->children.push_back(parse_expression());
    stream_.expect_operator(":");
    dict->children.push_back(parse_expression());
  }
  stream_.expect_operator("}");
  return finish(std::move(dict));
}

}  // namespace quire::jinja
