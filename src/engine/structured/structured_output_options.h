// What an operator may set about answers that follow a grammar.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grammar/grammar.h"

namespace quire {

struct CompiledGrammarsOptions {
  int32_t num_threads = 2;
  size_t max_cache_bytes = size_t{512} << 20;
  size_t max_cache_entries = 4096;  // failures included
  size_t max_queued = 1024;         // grammars that wait to be compiled
  grammar::GrammarLimits limits;
};

struct StructuredOutputOptions {
  CompiledGrammarsOptions grammars;
  int32_t num_mask_threads = 2;
  // Text that a grammar forces is handed out as drafts, so many bytes at once (TokenMaskSource::forced()); 0: it is not.
  size_t max_forced_bytes = 0;
};

}  // namespace quire
