// Makes the mask sources of requests from their rules for the text (core/structured_outputs.h).
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "engine/output/generation.h"
#include "engine/structured/compiled_grammars.h"
#include "engine/structured/mask_workers.h"
#include "engine/structured/structured_output_options.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Thread-safe. Its threads start with the first request that needs them.
class StructuredOutputService {
 public:
  // `tokenizer` may be null: then requests with structured outputs are refused.
  StructuredOutputService(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                          const StructuredOutputOptions& options);

  // Takes the structured outputs and the reasoning budget out of the request, starts to compile the
  // grammar, and gives the request a mask source. Errors in the grammar are found when it is
  // compiled; the request's choices then end with kInvalidArgument. kResourceExhausted: too many
  // grammars wait.
  Status constrain(GenerationRequest& request);

  CompiledGrammars::Counts counts() const;

 private:
  Status constrain_text(GenerationRequest& request);
  Status constrain_reasoning(GenerationRequest& request) const;

  struct Threads {
    CompiledGrammars grammars;
    MaskWorkers workers;
  };
  std::shared_ptr<Threads> threads();

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int32_t vocab_size_;
  const StructuredOutputOptions options_;
  mutable std::mutex mutex_;
  std::shared_ptr<Threads> threads_;
};

}  // namespace quire
