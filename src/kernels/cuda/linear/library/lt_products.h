// The matrix products of linear() by cuBLASLt. Row-major y [M, N] = x [M, K] W [N, K]^T is, in the
// library's column-major terms, D [N, M] = W^T x with W stored as [K, N] and transposed.
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
  void* workspace = nullptr;  // kLtWorkspaceBytes, aligned as in LtMemory
  int64_t num_rows = 0;
};

// Stored with a stream. One thread may use it.
class LtProducts final : public LibraryState {
 public:
  // Loads the library, and reads earlier measurements from the stream's folder. kNotFound: there is
  // no such library.
  static Result<std::unique_ptr<LtProducts>> open(const GpuStream& stream);
  ~LtProducts() override;

  // Another kernel for the product, bias included, that writes it to `y`. It is queued like any
  // kernel. Empty: there is none.
  using OtherKernel = std::function<void(void* y)>;
  // Queues the product. If the algorithm cannot add the bias, place_bias() is called first, and the
  // product is added to y.
  Status run(GpuStream& stream, const MatmulKey& key, const LtOperands& operands,
             const OtherKernel& other, const std::function<void()>& place_bias);
  // Returns whether the library has any algorithm for the product.
  bool supports(const MatmulKey& key);

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm{};  // all zeros, which no library algorithm is: the other kernel
    bool fuses_bias = false;
    bool is_other_kernel() const;
  };

  LtProducts() = default;
  // Returns the product that the library computes: if it does not fuse the bias, y already contains
  // it.
  static MatmulKey as_asked(const MatmulKey& key, bool fuses_bias);
  Result<const Algorithm*> algorithm_for(GpuStream& stream, const MatmulKey& key,
                                         const LtOperands& operands, const OtherKernel& other);
  // Returns the fastest of the proposed algorithms and the other kernel, or nothing if nothing
  // could be measured. `first` is the first proposed algorithm.
  std::optional<Algorithm> choose(GpuStream& stream, const MatmulKey& key,
                                  const LtOperands& operands, const OtherKernel& other,
                                  const std::vector<cublasLtMatmulAlgo_t>& proposed,
                                  const Algorithm& first);
  // Returns algorithms, best first by the library's own ranking; empty: there is none. `bias` is
  // the bias to fuse, or null.
  Result<std::vector<cublasLtMatmulAlgo_t>> candidates(const MatmulKey& key,
                                                       const LtOperands& operands,
                                                       const float* bias, int max_count);
  // Returns the least time of some runs in microseconds; negative: a run failed.
  float measure(GpuStream& stream, const std::function<bool()>& product);
  float time_once(GpuStream& stream, const std::function<bool()>& product);
  cublasStatus_t multiply(GpuStream& stream, const MatmulKey& key, const LtOperands& operands,
                          const cublasLtMatmulAlgo_t& algorithm, const float* bias);
  void remember(const MatmulKey& key, const Algorithm& algorithm, float microseconds);

  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::string cache_dir_;
  AlgorithmCache measured_{""};
  std::map<MatmulKey, Algorithm> algorithms_;  // in use by this process
  Algorithm unmeasured_;                       // for the last product that was not measured
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace quire::cuda
