#include "chat/jinja/parse/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "chat/jinja/parse/expression_parser.h"
#include "chat/jinja/parse/token_stream.h"
#include "chat/jinja/value/text.h"

namespace quire::jinja {
namespace {

constexpr int kMaxBlocks = 60;  // tags within tags

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens)
      : stream_(std::move(tokens)), expressions_(stream_, template_) {}

  Template run() {
    try {
      template_.body = parse_body({});
      if (!stream_.is(TokenType::kEnd))
        fail("unexpected '{}'", TokenStream::describe(stream_.current()));
    } catch (Error& error) {
      if (error.line == 0) error.line = stream_.current().line;
      throw;
    }
    return std::move(template_);
  }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  StmtPtr make(StmtKind kind, int line) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  // Reads up to a tag whose name is in `ends`. The name stays the current token.
  Body parse_body(Names ends) {
    if (++num_blocks_ > kMaxBlocks) fail_limit("tags nest deeper than {}", kMaxBlocks);
    Body body;
    while (!stream_.is(TokenType::kEnd)) {
      const Token& token = stream_.current();
      if (token.type == TokenType::kText) {
        StmtPtr text = make(StmtKind::kText, token.line);
        text->text = stream_.next().text;
        body.push_back(std::move(text));
      } else if (token.type == TokenType::kPrintBegin) {
        stream_.next();
        StmtPtr print = make(StmtKind::kPrint, token.line);
        print->expr = expressions_.parse_tuple();
        stream_.expect(TokenType::kPrintEnd);
        body.push_back(std::move(print));
      } else {
        stream_.expect(TokenType::kTagBegin);
        const bool at_end = std::any_of(
            ends.begin(), ends.end(), [&](std::string_view name) { return stream_.is_name(name); });
        if (at_end) break;
        parse_statement(body, ends);
        stream_.expect(TokenType::kTagEnd);
      }
    }
    if (stream_.is(TokenType::kEnd) && ends.size() > 0) {
      fail("Unexpected end of template. Jinja was looking for the following tags: '{}'.",
           fmt::join(ends, "' or '"));
    }
    --num_blocks_;
    return body;
  }

  // Reads the rest of a block after the head of its tag: the tag's end, the body, and the name of
  // the closing tag.
  Body parse_block(Names ends) {
    stream_.skip_operator(":");
    stream_.expect(TokenType::kTagEnd);
    return parse_body(ends);
  }
  Body parse_block_to(std::string_view end) {
    Body body = parse_block({end});
    stream_.next();
    return body;
  }

  void parse_statement(Body& body, Names ends) {
    if (!stream_.is(TokenType::kName)) fail("tag name expected");
    const std::string name = stream_.current().text;
    const int line = stream_.current().line;
    using Rule = StmtPtr (Parser::*)(int);
    constexpr std::pair<std::string_view, Rule> kRules[] = {
        {"set", &Parser::parse_set},
        {"if", &Parser::parse_if},
        {"for", &Parser::parse_for},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},
        {"generation", &Parser::parse_generation},
        {"break", &Parser::parse_break},
        {"continue", &Parser::parse_continue},
        {"block", &Parser::parse_named_block},
        {"autoescape", &Parser::parse_autoescape},
        {"include", &Parser::parse_unsupported},
        {"import", &Parser::parse_unsupported},
        {"from", &Parser::parse_unsupported},
        {"extends", &Parser::parse_unsupported}};
    if (name == "print") return parse_print(body);
    for (const auto& [tag, rule] : kRules) {
      if (tag != name) continue;
      stream_.next();
      body.push_back((this->*rule)(line));
      return;
    }
    if (ends.size() == 0) fail("Encountered unknown tag {}.", quoted(name));
    fail("Encountered unknown tag {}. Jinja was looking for the following tags: '{}'.",
         quoted(name), fmt::join(ends, "' or '"));
  }

  void parse_print(Body& body) {
    stream_.next();
    for (bool is_first = true; !stream_.is(TokenType::kTagEnd); is_first = false) {
      if (!is_first) stream_.expect_operator(",");
      StmtPtr print = make(StmtKind::kPrint, stream_.current().line);
      print->expr = expressions_.parse_expression();
      body.push_back(std::move(print));
    }
  }

  StmtPtr parse_set(int line) {
    StmtPtr stmt = make(StmtKind::kSet, line);
    stmt->target = expressions_.parse_target("", true);
    if (stream_.skip_operator("=")) {
      stmt->expr = expressions_.parse_tuple();
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    stmt->expr = expressions_.parse_filters(nullptr, false);
    stmt->body = parse_captured("endset");
    return stmt;
  }

  // Reads a body that is rendered into a text of its own. break and continue are allowed in it, as
  // in Jinja.
  Body parse_captured(std::string_view end) { return parse_block_to(end); }

  StmtPtr parse_if(int line) {
    StmtPtr stmt = make(StmtKind::kIf, line);
    while (true) {
      ExprPtr test = expressions_.parse_tuple({.with_conditional = false});
      stmt->branches.emplace_back(std::move(test), parse_block({"elif", "else", "endif"}));
      if (stream_.skip_name("elif")) continue;
      if (stream_.skip_name("else")) {
        stmt->else_body = parse_block_to("endif");
      } else {
        stream_.next();
      }
      return stmt;
    }
  }

  StmtPtr parse_for(int line) {
    StmtPtr stmt = make(StmtKind::kFor, line);
    stmt->target = expressions_.parse_target("in", false);
    stream_.expect_name("in");
    stmt->expr = expressions_.parse_tuple({.with_conditional = false, .end_name = "recursive"});
    if (stream_.skip_name("if")) stmt->test = expressions_.parse_expression();
    stmt->is_recursive = stream_.skip_name("recursive");
    const int reads = expressions_.num_loop_reads;
    ++num_loops_;
    stmt->body = parse_block({"endfor", "else"});
    --num_loops_;
    stmt->uses_loop = stmt->is_recursive || expressions_.num_loop_reads > reads;
    if (stream_.skip_name("else")) {
      stmt->else_body = parse_block_to("endfor");
    } else {
      stream_.next();
    }
    return stmt;
  }

  StmtPtr parse_loop_control(StmtKind kind, int line) {
    if (num_loops_ == 0) fail("'{}' outside loop", kind == StmtKind::kBreak ? "break" : "continue");
    return make(kind, line);
  }
  StmtPtr parse_break(int line) { return parse_loop_control(StmtKind::kBreak, line); }
  StmtPtr parse_continue(int line) { return parse_loop_control(StmtKind::kContinue, line); }

  void parse_signature(MacroDef& macro) {
    stream_.expect_operator("(");
    while (!stream_.is_operator(")")) {
      if (!macro.parameters.empty()) stream_.expect_operator(",");
      std::string name = stream_.expect_name();
      if (std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
          macro.parameters.end()) {
        fail("duplicate argument {} in a macro", quoted(name));
      }
      macro.symbols.push_back(expressions_.intern(name));
      macro.parameters.push_back(std::move(name));
      if (stream_.skip_operator("=")) {
        macro.defaults.push_back(expressions_.parse_expression());
      } else if (!macro.defaults.empty()) {
        fail("non-default argument follows default argument");
      }
    }
    stream_.expect_operator(")");
  }

  // Reads the body of a macro or call block. It cannot break out of loops around it.
  void parse_macro_body(MacroDef& macro, std::string_view end) {
    const int callers = expressions_.num_caller_reads, varargs = expressions_.num_varargs_reads,
              kwargs = expressions_.num_kwargs_reads;
    const int loops = std::exchange(num_loops_, 0);
    macro.body = parse_block_to(end);
    num_loops_ = loops;
    const auto is_parameter = [&](std::string_view name) {
      return std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
             macro.parameters.end();
    };
    macro.uses_caller = expressions_.num_caller_reads > callers;
    macro.uses_varargs = expressions_.num_varargs_reads > varargs && !is_parameter("varargs");
    macro.uses_kwargs = expressions_.num_kwargs_reads > kwargs && !is_parameter("kwargs");
  }

  StmtPtr parse_macro(int line) {
    StmtPtr stmt = make(StmtKind::kMacro, line);
    stmt->macro = std::make_unique<MacroDef>();
    stmt->macro->name = stream_.expect_name();
    stmt->symbol = expressions_.intern(stmt->macro->name);
    parse_signature(*stmt->macro);
    parse_macro_body(*stmt->macro, "endmacro");
    return stmt;
  }

  StmtPtr parse_call_block(int line) {
    StmtPtr stmt = make(StmtKind::kCallBlock, line);
    stmt->macro = std::make_unique<MacroDef>();
    stmt->macro->name = "caller";
    if (stream_.is_operator("(")) parse_signature(*stmt->macro);
    stmt->expr = expressions_.parse_expression();
    if (stmt->expr->kind != ExprKind::kCall) fail("expected call");
    parse_macro_body(*stmt->macro, "endcall");
    return stmt;
  }

  StmtPtr parse_filter_block(int line) {
    StmtPtr stmt = make(StmtKind::kFilterBlock, line);
    stmt->expr = expressions_.parse_filters(nullptr, true);
    stmt->body = parse_captured("endfilter");
    return stmt;
  }

  StmtPtr parse_with(int line) {
    StmtPtr stmt = make(StmtKind::kWith, line);
    while (!stream_.is(TokenType::kTagEnd)) {
      if (!stmt->bindings.empty()) stream_.expect_operator(",");
      ExprPtr target = expressions_.parse_target("", false);
      stream_.expect_operator("=");
      stmt->bindings.emplace_back(std::move(target), expressions_.parse_expression());
    }
    stmt->body = parse_block_to("endwith");
    return stmt;
  }

  // A generation block marks what the assistant said, for training. Its text is rendered unchanged.
  StmtPtr parse_generation(int line) {
    StmtPtr stmt = make(StmtKind::kScope, line);
    const int loops = std::exchange(num_loops_, 0);
    stmt->body = parse_block_to("endgeneration");
    num_loops_ = loops;
    return stmt;
  }

  StmtPtr parse_named_block(int line) {
    StmtPtr stmt = make(StmtKind::kScope, line);
    const std::string name = stream_.expect_name();
    stmt->is_isolated = !stream_.skip_name("scoped");
    stream_.skip_name("required");
    const int loops = std::exchange(num_loops_, 0);
    stmt->body = parse_block_to("endblock");
    num_loops_ = loops;
    stream_.skip_name(name);
    return stmt;
  }

  StmtPtr parse_autoescape(int line) {
    StmtPtr stmt = make(StmtKind::kScope, line);
    const ExprPtr value = expressions_.parse_expression();
    if (value->kind != ExprKind::kConstant || is_true(value->constant)) {
      stmt->kind = StmtKind::kUnsupported;
      stmt->text = "autoescape is not supported";
    }
    stmt->body = parse_block_to("endautoescape");
    return stmt;
  }

  StmtPtr parse_unsupported(int line) {
    StmtPtr stmt = make(StmtKind::kUnsupported, line);
    stmt->text = "include, import and extends are not supported: a chat template is one file";
    while (!stream_.is(TokenType::kTagEnd) && !stream_.is(TokenType::kEnd)) stream_.next();
    return stmt;
  }

  Template template_;
  TokenStream stream_;
  ExpressionParser expressions_;
  int num_blocks_ = 0;
  int num_loops_ = 0;
};

}  // namespace

Template parse_template(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace quire::jinja
