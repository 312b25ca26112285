// EncoderStack runs the layers of an encoder, with their memory, on the host. One sequence runs at
// a time, so that its bits are its own (law L4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "device/stream.h"
#include "nn/decoder/decoder.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// What an encoder reads: rows [count, E], which see each other. Or the first num_seen of them do, and
// those behind see these alone.
struct EncoderRows {
  const float* rows = nullptr;
  int32_t count = 0;
  int32_t num_seen = 0;  // 0: all
  std::span<const HiddenTap> taps = {};
};

// One thread at a time may use it.
class EncoderStack {
 public:
  // Of sequences of up to max_rows, of which those that not all see have at least min_seen of the
  // others. Borrows spec and stream.
  EncoderStack(const DecoderSpec& spec, const WeightOptions& options, int32_t max_rows,
               HostStream& stream, int32_t min_seen = 0);

  // Finds and checks the tensors; reads none. Borrows packing; what `source` borrows must outlive
  // load().
  Status open(TensorSource source, const NameMap& names, const QuantConfig& quantization,
              WeightPacking& packing);

  int64_t weight_bytes() const { return plan_.arena_bytes(); }
  int64_t workspace_bytes() const;
  // Loads the layers. The arena gets `more_bytes` for whoever uses the stack.
  Status load(const LoadOptions& options, int64_t more_bytes);
  Arena& arena() { return workspace_; }
  Decoder& decoder() { return *decoder_; }
  const DecoderWeights& weights() const { return weights_; }

  // Returns what comes out behind the last norm for `rows` [count, E], or for tokens: [count, E],
  // valid until the next call.
  const float* run_rows(const EncoderRows& rows);
  const float* run_tokens(const TokenId* token_ids, int32_t count);
  // Returns 0, 1, 2 and so on, max_rows of them.
  const int32_t* sequence() const { return sequence_.data(); }

 private:
  int64_t num_blocks() const;
  int64_t cache_floats() const;  // of keys, and as many of values
  std::vector<LayerCache> one_cache();
  const float* run(const TokenId* token_ids, const EncoderRows& rows);
  // Cuts the rows into runs that see all rows, or the first num_seen.
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
  // Of each run; the blocks of all runs are the same.
  std::vector<int32_t> run_starts_, run_lens_, block_table_;
  std::vector<int64_t> slots_;
};

}  // namespace quire
