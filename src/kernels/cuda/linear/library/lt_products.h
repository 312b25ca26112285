// The matrix products of linear() by cuBLASLt. Row-major y [M, N] = x [M, K] W [N, K]^T is, in its
// column-major terms, D [N, M] = W^T x with W stored [K, N] and transposed.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu_stream.h"
#include "kernels/api/linear.h"
#include "kernels/cuda/linear/library/algorithm_cache.h"
#include "kernels/cuda/linear/library/cublas_lt.h"
#include "kernels/cuda/linear/library/lt_memory.h"
#include "kernels/cuda/linear/library/matmul_key.h"

namespace quire::cuda {

// The operands of one product, on the device.
struct LtOperands {
  const void* weight = nullptr;          // [N, K]
  const float* weight_scales = nullptr;  // FP8: [N]
  const void* x = nullptr;               // [M, K], rows x_stride apart
  const float* x_scales = nullptr;       // FP8: [M]
  const float* bias = nullptr;           // [N] or null
  void* y = nullptr;
  void* workspace = nullptr;  // kLtWorkspaceBytes, aligned as LtMemory
  int64_t num_rows = 0;
};

// Kept by a stream. One thread.
class LtProducts final : public LibraryState {
 public:
  // kNotFound: there is no such library. Reads what was measured before from the stream's folder.
  static Result<std::unique_ptr<LtProducts>> open(const GpuStream& stream);
  ~LtProducts() override;

  // Another way to the product, bias included, that writes it to `y`; queued like a kernel. Empty:
  // there is none.
  using OtherKernel = std::function<void(void* y)>;
  // Queues the product. Where it cannot take the bias along, place_bias() is called first, and the
  // product is added to y.
  Status run(GpuStream& stream, const MatmulKey& key, const LtOperands& operands,
             const OtherKernel& other, const std::function<void()>& place_bias);
  // Whether the library has an algorithm for the product at all.
  bool supports(const MatmulKey& key);

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm{};  // zeros: the other kernel, which no word of the library is
    bool fuses_bias = false;
    bool is_other_kernel() const;
  };

  LtProducts() = default;
  // The product that the library is asked for: where it does not fuse the bias, y has it already.
  static MatmulKey as_asked(const MatmulKey& key, bool fuses_bias);
  Result<const Algorithm*> algorithm_for(GpuStream& stream, const MatmulKey& key,
                                         const LtOperands& operands, const OtherKernel& other);
  // The fastest of what was proposed, and of the other kernel; nothing where nothing could be
  // measured. `first` is the first that was proposed.
  std::optional<Algorithm> choose(GpuStream& stream, const MatmulKey& key,
                                  const LtOperands& operands, const OtherKernel& other,
                                  const std::vector<cublasLtMatmulAlgo_t>& proposed,
                                  const Algorithm& first);
  // Best first, by the library's own ranking; empty: none. `bias`: to be fused, or null.
  Result<std::vector<cublasLtMatmulAlgo_t>> candidates(const MatmulKey& key,
                                                       const LtOperands& operands,
                                                       const float* bias, int max_count);
  // The least time of some runs, microseconds; negative: it failed.
  float measure(GpuStream& stream, const std::function<bool()>& product);
  float time_once(GpuStream& stream, const std::function<bool()>& product);
  cublasStatus_t multiply(GpuStream& stream, const MatmulKey& key, const LtOperands& operands,
                          const cublasLtMatmulAlgo_t& algorithm, const float* bias);
  void remember(const MatmulKey& key, const Algorithm& algorithm, float microseconds);

  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::string cache_dir_;
  AlgorithmCache measured_{""};
  std::map<MatmulKey, Algorithm> algorithms_;  // of this run
  Algorithm unmeasured_;                       // of the product that was asked for last
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace quire::cuda
