// quantize_checkpoint() turns a float checkpoint into a quantized one, in the layout of
// compressed-tensors: safetensors shards, config.json with its quantization_config, and everything
// else copied.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "models/model_config.h"
#include "quantize/scheme.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// Factors for a tensor before it is rounded or copied: a matrix has a factor per input and per
// output, a vector one per element. An empty list stands for factors of 1.
struct Rescale {
  std::vector<float> columns = {};
  std::vector<float> rows = {};
  float offset = 0.0f;  // the model adds it to the stored vector w: (w + offset) is scaled
};
using Rescales = std::map<std::string, Rescale, std::less<>>;  // by tensor name

struct QuantizeOptions {
  std::string output;  // a new folder, or one with an unfinished run of the same job
  WriteScheme scheme;
  std::string method = "rtn";  // stored in the unfinished folder, so that jobs are not mixed
  Rescales rescales = {};
  int64_t shard_bytes = int64_t{1} << 30;
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress = {};
};

struct QuantizeSummary {
  int64_t source_bytes = 0;
  int64_t written_bytes = 0;
  int64_t num_modules = 0;                // quantized
  std::vector<std::string> kept_modules;  // names of linear layers that stay float
  int64_t num_shards = 0;
  int64_t num_shards_kept = 0;  // whole shards of an earlier run
};

// Creates the output folder, marked as unfinished, and fails where quantize_checkpoint() would. It
// lets callers find out before hours of calibration.
Status claim_output(const ModelFiles& files, const TensorSource& source, const ModelConfig& config,
                    ThreadTeam& team, const QuantizeOptions& options);

// Keeps one tensor in memory at a time. kInvalidArgument: the folder holds something else, or the
// model is quantized already or a GGUF file. kDataLoss: a weight is not finite. After an
// interrupted run, the next call keeps its complete shards and continues; config.json is written
// last.
Result<QuantizeSummary> quantize_checkpoint(const ModelFiles& files, const TensorSource& source,
                                            const ModelConfig& config, ThreadTeam& team,
                                            const QuantizeOptions& options);

}  // namespace quire
