// Structured output: a grammar says which tokens may come next.
//
//   const Vocabulary vocabulary(tokenizer, eos_ids, padded_size);          // once per model
//   QUIRE_ASSIGN_OR_RETURN(auto grammar, compile({GrammarKind::kJsonSchema, schema_text}));
//   Matcher matcher(grammar, vocabulary);                                  // once per request
//   QUIRE_RETURN_IF_ERROR(matcher.fill_mask(row));                         // each step
//   matcher.accept(token);
//
// The mask is exact: a token is allowed if some text of the language begins with the text so far
// and the token's bytes, however the text so far was split into tokens. An end-of-sequence token is
// allowed exactly where the text is complete.
//
// Terminals are regular expressions over bytes, run by automata whose states are made when reached
// (lexer.h). Rules are parsed with Earley's method, whose item sets are stored as a stack of shared
// nodes (stack.h). All ways to end a terminal are followed in parallel, so there is no
// longest-match rule. The mask of a lexer state depends on its terminals alone and is cached for
// all grammars of a vocabulary; only the rest of a token that continues behind a terminal's end is
// looked up in the grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/rules/json_options.h"
#include "grammar/vocabulary.h"

namespace quire::grammar {

enum class GrammarKind {
  kJsonSchema,  // text: a schema, drafts 4 to 2020-12
  kJsonObject,  // any JSON object; text is not used
  kRegex,       // text: an ECMA-262 regular expression that must match the whole output
  kChoice,      // choices: the output is one of them
  kEbnf,        // text: GBNF, as llama.cpp and xgrammar write it
  kLark,        // text: Lark, as llguidance reads it
  // text: a structural tag as JSON, in xgrammar's old or new form
  kStructuralTag,
};

struct GrammarSource {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text{};
  std::vector<std::string> choices{};
  JsonOptions json{};
  // The special tokens of the vocabulary. Where kLark and kStructuralTag name one of them, only
  // that token matches, not its text.
  std::vector<std::string> special_tokens{};
};

// GrammarLimits bound what a client's grammar may cost. Beyond a limit, compile() or the step fails
// with a message that begins with "grammar budget".
struct GrammarLimits {
  size_t max_source_bytes = 1 << 20;
  size_t max_expressions = 2'000'000;
  size_t max_compile_derivatives = 8'000'000;  // about 0.2 s on one core
  size_t max_states = 500'000;                 // states of all rules
  size_t max_lexer_states = 50'000;
  size_t max_stacks = 2'000;              // alternatives at one place of the text
  size_t max_stack_nodes = 1'000'000;     // for a whole text
  size_t max_mask_steps = 4'000'000;      // trie nodes visited for one mask
  size_t max_mask_expressions = 200'000;  // expressions made, and examined, for one mask
};

// A Grammar is compiled, and shared by all requests with the same source. Matchers lock it while
// they work.
struct Grammar;

Result<std::shared_ptr<const Grammar>> compile(const GrammarSource& source,
                                               const GrammarLimits& limits = {});

// Returns whether matchers have used so much of the grammar's limits that later requests should
// compile a new one. Any thread may call it.
bool is_crowded(const Grammar& grammar);
// Returns approximately how many bytes of memory the grammar takes.
size_t memory_bytes(const Grammar& grammar);

// A Matcher is the position of one text in a grammar. It is not thread-safe.
class Matcher {
 public:
  // `vocabulary` must outlive the matcher.
  Matcher(std::shared_ptr<const Grammar> grammar, const Vocabulary& vocabulary);
  ~Matcher();
  Matcher(Matcher&&) noexcept;

  // Takes the next token of the text. Returns false and leaves the text unchanged when the token is
  // not allowed, or when a budget is exceeded, which fill_mask() then reports.
  bool accept(TokenId token);
  // Does the same for bytes, which rollback() counts as one token.
  bool accept_bytes(std::string_view bytes);

  // Writes the allowed tokens: bit t % 32 of row[t / 32]. `row` has vocabulary.mask_words() words.
  // The bits of special tokens that the grammar does not name, and of padded ids, are 0. Returns an
  // error if no token is allowed, or if a budget is exceeded, by this call or by the accept() before
  // it. Other matchers of the grammar go on, and so does this one after rollback().
  Status fill_mask(std::span<uint32_t> row);
  size_t mask_words() const;

  // Undoes the last `num_tokens` accepted tokens, at most num_tokens(), each in constant time.
  void rollback(size_t num_tokens);
  size_t num_tokens() const;

  // Returns whether the text so far is complete, so that end of sequence is allowed.
  bool is_complete() const;
  // Returns whether an end-of-sequence token was accepted; nothing is allowed after it.
  bool is_finished() const;

  // Returns the bytes that must come next, at most `max_bytes`: before each of them the text is not
  // complete and exactly one byte is allowed. They may end inside a character.
  std::string forced_bytes(size_t max_bytes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::grammar
