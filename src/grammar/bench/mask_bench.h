// MaskBench (jsonschemabench, arXiv 2501.10868): real schemas with instances that a grammar must
// accept or refuse token by token, and the time that compiling and masking take.
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
  // Compiled, and every instance judged rightly.
  int64_t num_passing = 0;
  int64_t num_passing_with_tests = 0;
  int64_t num_not_compiled = 0;
  int64_t num_budget_errors = 0;  // instances without a verdict: a mask failed
  int64_t num_false_accepts = 0;
  int64_t num_false_rejects = 0;
  // Of those, instances that are accepted where members may come in any order: what is refused is
  // their order, which follows the schema by default.
  int64_t num_refused_by_order = 0;
  std::vector<double> compile_us;  // of schemas that compile
  std::vector<double> mask_us;     // one mask made and one token taken; CPU time
  std::vector<std::string> notes;  // one line for each verdict that is wrong and for what is slow
};

// Adds one schema: a line of the benchmark's file, an object with `name`, `schema` and `tests`
// (`valid`, `data`). An instance is accepted when every token of its text is allowed and the text
// is complete at its end.
Status run_mask_bench(std::string_view line, const Tokenizer& tokenizer,
                      const Vocabulary& vocabulary, const JsonOptions& options,
                      MaskBenchReport& report);

// JSON text in the benchmark's spelling: blanks after `,` and `:`, numbers as Python writes them,
// characters unescaped. Aborts when `text` is not JSON.
std::string spelled_as_python(std::string_view text);

}  // namespace quire::grammar
