// Answers all requests of a batch file, as OpenAI's batches and vLLM's run-batch do: one line of
// JSON for each request, and one for each answer, in the order in which they are ready.
//
//   QUIRE_ASSIGN_OR_RETURN(const BatchCounts counts, run_batch({.input = "in.jsonl", .output = "out.jsonl"},
//                                                              server_options, model));
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "server/http/server_options.h"
#include "server/openai/served_model.h"

namespace quire {

struct BatchOptions {
  std::string input;
  std::string output;
  // Requests under way at once.
  int32_t max_concurrent = 64;
  // Begin anew. Otherwise answers that the output holds already are kept, and their requests are
  // not asked again.
  bool overwrite = false;
  // Bytes of the input that are done, on the calling thread.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};
};

struct BatchCounts {
  int64_t num_requests = 0;  // lines that are not empty
  int64_t num_answered = 0;  // with status 200
  int64_t num_failed = 0;    // lines that are no requests, and answers with another status
  int64_t num_kept = 0;      // answered by an earlier run
};

// kNotFound, kInvalidArgument: the input cannot be read, the output cannot be written, or both are
// one file. kUnavailable: the engine is dead, or the disk is full; what was answered is in the file.
Result<BatchCounts> run_batch(const BatchOptions& options, const ServerOptions& server,
                              ServedModel model);

}  // namespace quire
