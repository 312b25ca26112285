// ExpertReader reads single experts out of a checkpoint, into memory of their own, while the model
// runs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/threads/thread_team.h"
#include "device/stream.h"
#include "nn/weights/decoder_slots.h"
#include "nn/weights/weight_slots.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

// An expert that was read for a slot of a layer.
struct ReadExpert {
  size_t slot = 0;
  ExpertsWeights::Expert weights;
  Arena memory;  // of the weights
};

// The checkpoint, opened as it was when the model was loaded from it.
struct ExpertSource {
  const DecoderSpec& spec;  // of all ranks
  WeightOptions options;
  NameMap names;
  QuantConfig quantization;
  TensorSource tensors;
  std::vector<std::unique_ptr<std::byte[]>> memory;  // of tensors that lie in no file
  bool is_mapped = false;                            // the others lie in file mappings
};

// Borrows the spec. One thread at a time may use it.
class ExpertReader {
 public:
  struct Order {
    size_t slot = 0;
    int32_t expert = 0;
  };

  // kResourceExhausted: the system cannot start another thread.
  static Result<std::unique_ptr<ExpertReader>> create(ExpertSource source, Isa isa);

  // Fails with the errors of resolve_checkpoint() and load_checkpoint(), and with
  // kResourceExhausted when memory is short.
  Result<std::vector<ReadExpert>> read(int32_t layer, std::span<const Order> orders);

 private:
  ExpertReader(ExpertSource source, Isa isa, ThreadTeam team);

  ExpertSource source_;
  ThreadTeam team_;
  HostStream stream_;
  HostPacking packing_;
};

}  // namespace quire
