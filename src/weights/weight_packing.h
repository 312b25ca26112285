// WeightPacking is how a backend stores the weights of a model: how each is packed, how many bytes
// that takes, and how the weights get there. One object first plans, which writes nothing, and then
// loads.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/api/linear.h"
#include "kernels/api/quant.h"
#include "weights/quant/quant_config.h"

namespace quire {

class Stream;

// A WeightPacking is used by one thread. `weight.data`, and the memory that write() writes to, is
// zeroed memory of the backend.
class WeightPacking {
 public:
  virtual ~WeightPacking() = default;

  // Returns how a matrix that the checkpoint stores as `stored` is packed for such activations.
  // Returns kUnimplemented, or the error of check_quant(), if it cannot be packed.
  virtual Result<WeightSpec> choose(const WeightSpec& stored, QuantActivations activations) = 0;
  // Returns the same for a matrix of an expert, because kernels may want all experts packed alike.
  virtual Result<WeightSpec> choose_of_expert(const WeightSpec& stored,
                                              QuantActivations activations) {
    return choose(stored, activations);
  }
  virtual int64_t packed_bytes(const WeightSpec& spec) const = 0;
  // Returns whether a weight of `spec` may hold the rows of another matrix behind its first `rows`
  // rows.
  virtual bool may_stack(const WeightSpec& spec, int64_t rows) const = 0;
  // Returns whether the host looks up rows of tables. Then tables may stay in a mapped file, and
  // stay packed if the checkpoint quantized them; otherwise they are copied and dense.
  virtual bool host_reads_tables() const = 0;
  // Returns whether float matrices may be packed in any element type that a file has; otherwise
  // they are packed in the type that the model runs in.
  virtual bool takes_any_float() const { return true; }

  // Prepares the memory of `weight`, to which nothing was written yet. `num_blocks` is the number
  // of blocks of its outputs (kernels/api/placement.h).
  virtual void place(const PackedWeight& /*weight*/, int /*num_blocks*/) {}
  // These do what the functions of the same names in kernels/api do. Rows come in pieces, in order;
  // each piece but the last of a matrix has a multiple of 32 rows. The arguments need not outlive
  // the call.
  virtual void pack_weight_rows(const PackedWeight& weight, const WeightRows& rows) = 0;
  // `rows` are in the format `stored`.
  virtual void pack_quant_rows(const PackedWeight& weight, const QuantSpec& stored,
                               const QuantRows& rows) = 0;
  virtual void pack_quant_columns(const PackedWeight& weight, const int32_t* source) = 0;
  // Writes vectors and dense tables.
  virtual void write(void* to, const void* from, int64_t num_bytes) = 0;
  // Waits until everything is written, and returns the first error of any call.
  virtual Status finish() = 0;
};

// HostPacking packs weights in host memory for the kernels of `stream`, which it borrows.
class HostPacking final : public WeightPacking {
 public:
  explicit HostPacking(Stream& stream) : stream_(stream) {}

  Result<WeightSpec> choose(const WeightSpec& stored, QuantActivations activations) override;
  int64_t packed_bytes(const WeightSpec& spec) const override;
  bool may_stack(const WeightSpec& spec, int64_t rows) const override;
  bool host_reads_tables() const override { return true; }
  // Puts each page on the memory node of the thread that will read it.
  void place(const PackedWeight& weight, int num_blocks) override;
  void pack_weight_rows(const PackedWeight& weight, const WeightRows& rows) override;
  void pack_quant_rows(const PackedWeight& weight, const QuantSpec& stored,
                       const QuantRows& rows) override;
  void pack_quant_columns(const PackedWeight& weight, const int32_t* source) override;
  void write(void* to, const void* from, int64_t num_bytes) override;
  Status finish() override { return {}; }

 private:
  Stream& stream_;
};

}  // namespace quire
