// MaskBench (jsonschemabench, arXiv 2501.10868) has real schemas with instances. run_mask_bench()
// checks that a grammar accepts or refuses them token by token, and measures how long compiling and
// masking take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/rules/json_options.h"
#include "grammar/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace quire::grammar {

struct MaskBenchReport {
  int64_t num_schemas = 0;
  int64_t num_with_tests = 0;
  // Schemas that compiled and whose instances were all judged correctly.
  int64_t num_passing = 0;
  int64_t num_passing_with_tests = 0;
  int64_t num_not_compiled = 0;
  int64_t num_budget_errors = 0;  // instances without a verdict, because a mask failed
  int64_t num_false_accepts = 0;
  int64_t num_false_rejects = 0;
  // False rejects of instances that would be accepted with members in any order: only the order of
  // their members was refused, which must follow the schema by default.
  int64_t num_refused_by_order = 0;
  std::vector<double> compile_us;  // of the schemas that compile
  std::vector<double> mask_us;     // CPU time to make one mask and accept one token
  std::vector<std::string> notes;  // one line for each wrong verdict and for each slow schema
};

// Runs one schema: a line of the benchmark's file, an object with `name`, `schema` and `tests`
// (`valid`, `data`). An instance is accepted if every token of its text is allowed and the text is
// complete at its end.
Status run_mask_bench(std::string_view line, const Tokenizer& tokenizer,
                      const Vocabulary& vocabulary, const JsonOptions& options,
                      MaskBenchReport& report);

// Returns JSON text in the benchmark's spelling: blanks after `,` and `:`, numbers as Python writes
// them, characters unescaped. Aborts if `text` is not JSON.
std::string spelled_as_python(std::string_view text);

}  // namespace quire::grammar
