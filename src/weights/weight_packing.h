// WeightPacking is how a backend keeps the weights of a model: what each is packed as, what that
// takes, and how it gets there. One object plans (which writes nothing) and then loads.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/api/linear.h"
#include "kernels/api/quant.h"
#include "weights/quant/quant_config.h"

namespace quire {

class Stream;

// One thread uses it. `weight.data`, and where write() writes, is memory of the backend, zeroed.
class WeightPacking {
 public:
  virtual ~WeightPacking() = default;

  // Returns how a matrix is packed that is stored as `stored` for such activations. kUnimplemented,
  // or what check_quant() says: it cannot be packed.
  virtual Result<WeightSpec> choose(const WeightSpec& stored, QuantActivations activations) = 0;
  // Returns the same for a matrix of an expert: kernels may want those of all experts alike.
  virtual Result<WeightSpec> choose_of_expert(const WeightSpec& stored,
                                              QuantActivations activations) {
    return choose(stored, activations);
  }
  virtual int64_t packed_bytes(const WeightSpec& spec) const = 0;
  // Returns whether a weight of `spec` may go on behind its first `rows` rows with those of another
  // matrix.
  virtual bool may_stack(const WeightSpec& spec, int64_t rows) const = 0;
  // Returns whether the host reads tables: where they lie in a mapped file, and packed when the
  // checkpoint quantized them. Otherwise they are dense.
  virtual bool host_reads_tables() const = 0;
  // Returns whether float matrices may be packed in whatever element type a file has; else in the
  // one that the model runs in.
  virtual bool takes_any_float() const { return true; }

  // `weight` has its memory, and nothing was written there yet. `num_blocks` counts the blocks of
  // its outputs (kernels/api/placement.h).
  virtual void place(const PackedWeight& /*weight*/, int /*num_blocks*/) {}
  // These do what the functions of the same names in kernels/api do. Rows come in pieces, in order,
  // each but the last of a matrix a multiple of 32; the arguments may go when the call returns.
  virtual void pack_weight_rows(const PackedWeight& weight, const WeightRows& rows) = 0;
  // `rows` are of format `stored`.
  virtual void pack_quant_rows(const PackedWeight& weight, const QuantSpec& stored,
                               const QuantRows& rows) = 0;
  virtual void pack_quant_columns(const PackedWeight& weight, const int32_t* source) = 0;
  // Writes vectors and dense tables.
  virtual void write(void* to, const void* from, int64_t num_bytes) = 0;
  // Returns when everything is where it belongs, with the first error of any call.
  virtual Status finish() = 0;
};

// HostPacking packs in memory of this machine, for the kernels of `stream`, which is borrowed.
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
