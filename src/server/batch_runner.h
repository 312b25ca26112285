// Answers all requests of a batch file, as OpenAI's batches and vLLM's run-batch do: one line of
// JSON for each request, and one for each answer, in the order in which they are ready.
//
//   QUIRE_ASSIGN_OR_RETURN(const BatchCounts counts, run_batch({.input = "in.jsonl", .output = "out.jsonl"},
//                                                              server_options, model));
#pragma once

#include <memory>

#include "base/result.h"
#include "server/batch/batch_options.h"
#include "server/http/server_options.h"
#include "server/models/model_host.h"

namespace quire {

// kNotFound, kInvalidArgument: the input cannot be read, the output cannot be written, or both are
// the same file. kUnavailable: the engine has failed, or the disk is full; the answers so far are
// in the output.
Result<BatchCounts> run_batch(const BatchOptions& options, const ServerOptions& server,
                              ServedModel model);
Result<BatchCounts> run_batch(const BatchOptions& options, const ServerOptions& server,
                              std::shared_ptr<server::ModelHost> models);

}  // namespace quire
