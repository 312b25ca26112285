// The settings for answers that follow a grammar.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grammar/grammar.h"

namespace quire {

struct CompiledGrammarsOptions {
  int32_t num_threads = 2;
  size_t max_cache_bytes = size_t{512} << 20;
  size_t max_cache_entries = 4096;  // including failed ones
  size_t max_queued = 1024;         // grammars that may wait to be compiled
  grammar::GrammarLimits limits;
};

struct StructuredOutputOptions {
  CompiledGrammarsOptions grammars;
  int32_t num_mask_threads = 2;
  // The most bytes of text forced by a grammar that are drafted at once
  // (TokenMaskSource::forced()); 0: none.
  size_t max_forced_bytes = 0;
};

}  // namespace quire
