// EncoderStack runs the layers of an encoder on the host and owns their memory. It runs one
// sequence at a time, so that a sequence's bits depend on nothing else (law L4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "device/stream.h"
#include "exec/media/encoder_kv.h"
#include "nn/decoder/decoder.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// The input of an encoder: rows [count, E], which attend to each other. With num_seen above 0, all
// rows attend to the first num_seen rows only.
struct EncoderRows {
  const float* rows = nullptr;
  int32_t count = 0;
  int32_t num_seen = 0;  // 0: all
  std::span<const HiddenTap> taps = {};
};

// One thread at a time may use it.
class EncoderStack {
 public:
  // For sequences of up to max_rows rows. Where these attend to some rows only (num_seen), those
  // are at least min_seen. Borrows spec and stream.
  EncoderStack(const DecoderSpec& spec, const WeightOptions& options, int32_t max_rows,
               HostStream& stream, int32_t min_seen = 0);

  // Finds and checks the tensors without reading any. Borrows packing; what `source` borrows must
  // outlive load().
  Status open(TensorSource source, const NameMap& names, const QuantConfig& quantization,
              WeightPacking& packing);

  int64_t weight_bytes() const { return plan_.arena_bytes(); }
  int64_t workspace_bytes() const;
  // Loads the layers. The arena gets `more_bytes` for the code that uses the stack.
  Status load(const LoadOptions& options, int64_t more_bytes);
  Arena& arena() { return workspace_; }
  Decoder& decoder() { return *decoder_; }
  const DecoderWeights& weights() const { return weights_; }

  // Return the output of the last norm, [count, E], for `rows` [count, E] or for tokens. It is
  // valid until the next call.
  const float* run_rows(const EncoderRows& rows);
  const float* run_tokens(const TokenId* token_ids, int32_t count);
  // Returns the numbers 0 to max_rows - 1.
  const int32_t* sequence() const { return sequence_.data(); }

 private:
  int64_t num_blocks() const;
  EncoderKv cache() const;
  const float* run(const TokenId* token_ids, const EncoderRows& rows);
  // Cuts the rows into runs, each of which attends to all rows or to the first num_seen.
  void cut_runs(const EncoderRows& rows, KvGroupInputs& group);

  const DecoderSpec& spec_;
  HostStream& stream_;
  DecoderWeights weights_;
  DecoderLimits limits_;
  TensorSource source_;
  LoadPlan plan_;
  Arena weight_arena_, workspace_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<int32_t> zeros_, sequence_, axis_positions_;
  // By run; all runs have the same blocks.
  std::vector<int32_t> run_starts_, run_lens_, block_table_;
  std::vector<int64_t> slots_;
};

}  // namespace quire
