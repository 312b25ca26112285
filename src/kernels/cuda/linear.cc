// linear() by cuBLASLt. Row-major y [M, N] = x [M, K] W [N, K]^T is, in its column-major terms,
// D [N, M] = W^T x with W stored [K, N] and transposed.
#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "device/cuda/error.h"
#include "kernels/cuda/add_bias.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/matmul_key.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/quant_weight.h"
#include "kernels/cuda/weight_rows.h"

namespace quire::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;

cudaDataType_t cuda_type(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

Status lt_status(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return internal_error("cuBLASLt: {} failed with status {}", what, static_cast<int>(status));
}

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  bool fuses_bias = false;  // else add_bias() follows
};

// What one call describes to the library; destroyed with it.
class Description {
 public:
  Description(const CublasLt& lt, const MatmulKey& key, int64_t rows) : lt_(lt) {
    (void)lt.create_description(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    (void)lt.create_layout(&weight, CUDA_R_16BF, key.k, key.n, key.k);
    (void)lt.create_layout(&x, CUDA_R_16BF, key.k, rows, key.x_stride);
    (void)lt.create_layout(&y, cuda_type(key.y_type), key.n, rows, key.y_stride);
  }
  ~Description() {
    (void)lt_.destroy_layout(y);
    (void)lt_.destroy_layout(x);
    (void)lt_.destroy_layout(weight);
    (void)lt_.destroy_description(operation);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  void fuse_bias(const float* bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;

 private:
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    (void)lt_.set_description(operation, attribute, &value, sizeof value);
  }
  const CublasLt& lt_;
};

class LinearLibrary final : public LibraryState {
 public:
  static Result<std::unique_ptr<LinearLibrary>> open() {
    auto library = std::make_unique<LinearLibrary>();
    QUIRE_ASSIGN_OR_RETURN(library->lt_, CublasLt::load());
    QUIRE_RETURN_IF_ERROR(lt_status(library->lt_.create(&library->handle_), "cublasLtCreate"));
    return library;
  }
  ~LinearLibrary() override {
    if (handle_ != nullptr) (void)lt_.destroy(handle_);
  }

  Status run(GpuStream& stream, const LinearParams& p) {
    const WeightSpec& spec = p.weight->spec;
    const MatmulKey key{.n = spec.n,
                        .k = spec.k,
                        .rows = algorithm_rows(p.num_rows, stream.deterministic()),
                        .x_stride = p.x_stride,
                        .y_stride = p.y_stride,
                        .y_type = p.y.dtype(),
                        .has_bias = p.bias != nullptr,
                        .accumulates = p.accumulate,
                        .deterministic = stream.deterministic()};
    QUIRE_ASSIGN_OR_RETURN(const Algorithm* algorithm, algorithm_for(key, p.bias));
    Description description(lt_, key, p.num_rows);
    if (algorithm->fuses_bias) description.fuse_bias(p.bias);
    const float alpha = 1.0f;
    const float beta = p.accumulate ? 1.0f : 0.0f;
    QUIRE_RETURN_IF_ERROR(lt_status(
        lt_.matmul(handle_, description.operation, &alpha, p.weight->data, description.weight,
                   p.x.data(), description.x, &beta, p.y.data(), description.y, p.y.data(),
                   description.y, &algorithm->algorithm, p.workspace, kWorkspaceBytes,
                   static_cast<cudaStream_t>(stream.handle())),
        "cublasLtMatmul"));
    if (p.bias != nullptr && !algorithm->fuses_bias) add_bias(stream, p);
    return {};
  }

 private:
  // Chosen once per key. The library's own ranking is taken: it is a pure function of the shape and
  // the device, so every start makes the same choice.
  Result<const Algorithm*> algorithm_for(const MatmulKey& key, const float* bias) {
    const auto found = algorithms_.find(key);
    if (found != algorithms_.end()) return &found->second;
    Algorithm algorithm;
    Description description(lt_, key, key.rows);
    Status chosen = internal_error("no bias to fuse");
    if (key.has_bias) {
      description.fuse_bias(bias);
      chosen = choose(key, description, algorithm.algorithm);
      algorithm.fuses_bias = chosen.ok();
    }
    if (!chosen.ok()) {
      Description plain(lt_, key, key.rows);
      QUIRE_RETURN_IF_ERROR(choose(key, plain, algorithm.algorithm));
    }
    return &algorithms_.emplace(key, algorithm).first->second;
  }

  Status choose(const MatmulKey& key, const Description& description,
                cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulPreference_t preference = nullptr;
    QUIRE_RETURN_IF_ERROR(
        lt_status(lt_.create_preference(&preference), "cublasLtMatmulPreferenceCreate"));
    (void)lt_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                             sizeof kWorkspaceBytes);
    if (key.deterministic) {  // no split over k: its parts would be cut by the number of rows
      const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
      (void)lt_.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                               sizeof schemes);
    }
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status =
        lt_.get_heuristic(handle_, description.operation, description.weight, description.x,
                          description.y, description.y, preference, 1, &result, &count);
    (void)lt_.destroy_preference(preference);
    QUIRE_RETURN_IF_ERROR(lt_status(status, "cublasLtMatmulAlgoGetHeuristic"));
    if (count == 0) {
      return internal_error("cuBLASLt: no algorithm for {} rows of [{}, {}]", key.rows, key.n,
                            key.k);
    }
    algorithm = result.algo;
    return {};
  }

  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<MatmulKey, Algorithm> algorithms_;
};

}  // namespace

void linear(Stream& stream, const LinearParams& params) {
  if (params.num_rows == 0 || params.weight->spec.n == 0) return;
  if (params.weight->spec.quant.is_quantized()) return quant_linear(stream, params);
  GpuStream& queue = static_cast<GpuStream&>(stream);
  QUIRE_CHECK(params.x.dtype() == DType::kBF16 && params.weight->spec.dtype == DType::kBF16,
              "[linear] a GPU wants bf16 inputs and weights, got {} and {}",
              to_string(params.x.dtype()), to_string(params.weight->spec.dtype));
  if (queue.library_state() == nullptr) {
    auto library = LinearLibrary::open();
    if (!library.ok()) return queue.fail(library.status());
    queue.library_state() = std::move(*library);
  }
  queue.fail(static_cast<LinearLibrary&>(*queue.library_state()).run(queue, params));
}

int64_t linear_workspace_bytes(const Stream& /*stream*/, int64_t /*max_rows*/,
                               const WeightSpec& /*spec*/) {
  return static_cast<int64_t>(kWorkspaceBytes);
}

void pack_weight_rows(Stream& stream, const PackedWeight& weight, const WeightRows& rows) {
  GpuStream& queue = static_cast<GpuStream&>(stream);
  for_each_piece(weight, rows, [&](int64_t offset, const void* data, int64_t num_bytes) {
    // From pageable memory: returns when `data` has been read.
    queue.fail(to_status(cudaMemcpyAsync(static_cast<uint8_t*>(weight.data) + offset, data,
                                         static_cast<size_t>(num_bytes), cudaMemcpyHostToDevice,
                                         static_cast<cudaStream_t>(queue.handle())),
                         "uploading weights"));
  });
}

}  // namespace quire::cuda
