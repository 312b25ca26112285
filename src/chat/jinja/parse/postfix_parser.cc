// These functions read what follows an operand: attributes, subscripts, calls, filters and tests.
#include <utility>

#include "chat/jinja/parse/expression_parser.h"

namespace quire::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (stream_.is_operator(".") || stream_.is_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (stream_.is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    if (stream_.is_operator("|")) {
      expr = parse_filters(std::move(expr), false);
    } else if (stream_.is_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (stream_.is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const Token& token = stream_.next();
  if (token.text == "[") return parse_index_or_slice(std::move(object));
  const Token& name = stream_.next();
  if (name.type == TokenType::kName) {
    ExprPtr expr = make_unary(ExprKind::kAttribute, token.line, std::move(object));
    expr->name = name.text;
    return expr;
  }
  if (name.type != TokenType::kInteger) fail("expected name or number");
  ExprPtr expr = make(ExprKind::kItem, token.line);
  expr->children.push_back(std::move(object));
  expr->children.push_back(make(ExprKind::kConstant, name.line));
  expr->children[1]->constant = Value::integer(name.integer);
  return finish(std::move(expr));
}

ExprPtr ExpressionParser::parse_index_or_slice(ExprPtr object) {
  const NestingGuard guard(depth_);
  const int line = stream_.current().line;
  ExprPtr first = stream_.is_operator(":") ? nullptr : parse_expression();
  if (!stream_.is_operator(":")) {
    ExprPtr expr = make(ExprKind::kItem, line);
    expr->children.push_back(std::move(object));
    if (stream_.is_operator(",")) {  // a[1, 2] asks for the tuple (1, 2)
      ExprPtr tuple = make(ExprKind::kTuple, line);
      tuple->children.push_back(std::move(first));
      while (stream_.skip_operator(",")) tuple->children.push_back(parse_expression());
      first = finish(std::move(tuple));
    }
    expr->children.push_back(std::move(first));
    stream_.expect_operator("]");
    return finish(std::move(expr));
  }
  ExprPtr expr = make(ExprKind::kSlice, line);
  expr->children.push_back(std::move(object));
  expr->children.push_back(std::move(first));
  for (int i = 0; i < 2; ++i) {
    const bool has_end =
        stream_.skip_operator(":") && !stream_.is_operator(":") && !stream_.is_operator("]");
    expr->children.push_back(has_end ? parse_expression() : nullptr);
  }
  stream_.expect_operator("]");
  return finish(std::move(expr));
}

std::unique_ptr<CallSite> ExpressionParser::parse_arguments() {
  const NestingGuard guard(depth_);
  auto call = std::make_unique<CallSite>();
  const auto require = [](bool holds) {
    if (!holds) fail("invalid syntax for function call expression");
  };
  stream_.expect_operator("(");
  for (bool is_first = true; !stream_.is_operator(")"); is_first = false) {
    if (!is_first) stream_.expect_operator(",");
    if (stream_.is_operator(")")) break;
    if (stream_.skip_operator("*")) {
      require(call->star == nullptr && call->double_star == nullptr);
      call->star = parse_expression();
    } else if (stream_.skip_operator("**")) {
      require(call->double_star == nullptr);
      call->double_star = parse_expression();
    } else if (stream_.is(TokenType::kName) && stream_.ahead().type == TokenType::kOperator &&
               stream_.ahead().text == "=") {
      require(call->double_star == nullptr);
      std::string name = stream_.expect_name();
      stream_.next();
      for (const auto& [have, value] : call->named) {
        if (have == name) fail("keyword argument repeated: {}", name);
      }
      call->named.emplace_back(std::move(name), parse_expression());
    } else {
      require(call->star == nullptr && call->double_star == nullptr && call->named.empty());
      call->positional.push_back(parse_expression());
    }
  }
  stream_.expect_operator(")");
  return call;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr expr = make(ExprKind::kCall, stream_.current().line);
  expr->children.push_back(std::move(callee));
  expr->call = parse_arguments();
  return finish(std::move(expr));
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = stream_.expect_name();
  while (stream_.skip_operator(".")) name += "." + stream_.expect_name();
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr input, bool inline_start) {
  while (inline_start || stream_.is_operator("|")) {
    if (!inline_start) stream_.next();
    inline_start = false;
    ExprPtr expr = make(ExprKind::kFilter, stream_.current().line);
    expr->name = parse_dotted_name();
    expr->call = stream_.is_operator("(") ? parse_arguments() : std::make_unique<CallSite>();
    expr->children.push_back(std::move(input));
    input = finish(std::move(expr));
  }
  return input;
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  const int line = stream_.next().line;
  const bool negated = stream_.skip_name("not");
  ExprPtr expr = make(ExprKind::kTest, line);
  expr->name = parse_dotted_name();
  expr->children.push_back(std::move(input));
  const Token& token = stream_.current();
  const bool is_value = token.type == TokenType::kName || token.type == TokenType::kString ||
                        token.type == TokenType::kInteger || token.type == TokenType::kFloat ||
                        stream_.is_operator("[") || stream_.is_operator("{");
  if (stream_.is_operator("(")) {
    expr->call = parse_arguments();
  } else {
    expr->call = std::make_unique<CallSite>();
    if (is_value && !stream_.is_name("else") && !stream_.is_name("or") && !stream_.is_name("and")) {
      if (stream_.is_name("is")) fail("You cannot chain multiple tests with is");
      expr->call->positional.push_back(parse_postfix(parse_primary()));
    }
  }
  expr = finish(std::move(expr));
  return negated ? make_unary(ExprKind::kNot, line, std::move(expr)) : std::move(expr);
}

}  // namespace quire::jinja
