#include "kernels/cuda/linear/library/lt_products.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "device/cuda/capture_mutex.h"
#include "device/cuda/current_device.h"
#include "device/cuda/error.h"

namespace quire::cuda {
namespace {

constexpr int kMaxCandidates = 8;
constexpr int kTimedRuns = 3;
constexpr size_t kFlushBytes = size_t{192} << 20;  // more than a GPU's L2 cache

cudaDataType_t cuda_type(DType dtype) { return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF; }

Status lt_status(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  // The library does not say why a call failed; if the device is lost, the runtime does.
  const cudaError_t device = cudaPeekAtLastError();
  if (is_device_lost(device)) return to_status(device, what);
  return internal_error("cuBLASLt: {} failed with status {}", what, static_cast<int>(status));
}

// A Description owns the library's descriptors of one call. Attributes that an older library does
// not have are reported by status().
class Description {
 public:
  Description(const CublasLt& lt, const MatmulKey& key, int64_t rows, const LtOperands& operands,
              const float* bias)
      : lt_(lt) {
    keep(lt.create_description(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    const cudaDataType_t type = key.is_fp8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    keep(lt.create_layout(&weight, type, static_cast<uint64_t>(key.k), static_cast<uint64_t>(key.n),
                          key.k));
    keep(lt.create_layout(&x, type, static_cast<uint64_t>(key.k), static_cast<uint64_t>(rows),
                          key.x_stride));
    keep(lt.create_layout(&y, cuda_type(key.y_type), static_cast<uint64_t>(key.n),
                          static_cast<uint64_t>(rows), key.y_stride));
    if (key.is_fp8) scale_by_vectors(operands);
    if (bias != nullptr) fuse_bias(bias);
  }
  ~Description() {
    if (y != nullptr) (void)lt_.destroy_layout(y);
    if (x != nullptr) (void)lt_.destroy_layout(x);
    if (weight != nullptr) (void)lt_.destroy_layout(weight);
    if (operation != nullptr) (void)lt_.destroy_description(operation);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  cublasStatus_t status() const { return status_; }

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;

 private:
  // Scales by a factor per output and a factor per row.
  void scale_by_vectors(const LtOperands& operands) {
    const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.weight_scales);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.x_scales);
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{0});  // partial sums are added in float32
  }
  void fuse_bias(const float* bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    if (operation == nullptr) return;
    keep(lt_.set_description(operation, attribute, &value, sizeof value));
  }
  void keep(cublasStatus_t status) {
    if (status_ == CUBLAS_STATUS_SUCCESS) status_ = status;
  }

  const CublasLt& lt_;
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
};

// Returns everything that decides which algorithm is fast, and whether its words mean the same.
Result<std::string> identity_of(const CublasLt& lt) {
  int device = 0;
  int driver = 0;
  cudaDeviceProp properties{};
  QUIRE_RETURN_IF_ERROR(to_status(cudaGetDevice(&device), "asking for the device"));
  QUIRE_RETURN_IF_ERROR(to_status(cudaDriverGetVersion(&driver), "asking for the driver"));
  QUIRE_RETURN_IF_ERROR(
      to_status(cudaGetDeviceProperties(&properties, device), "asking what the device is"));
  return fmt::format("{}, sm_{}{}, {} SMs; driver {}; cuBLASLt {}", properties.name,
                     properties.major, properties.minor, properties.multiProcessorCount, driver,
                     lt.version());
}

// Memory for results that are not read, used while algorithms are measured.
class Scratch {
 public:
  Scratch(const GpuStream& stream, size_t num_bytes) : stream_(handle_of(stream)) {
    if (cudaMallocAsync(&data_, num_bytes, stream_) != cudaSuccess) {
      data_ = nullptr;
      (void)cudaGetLastError();  // what does not fit is not measured, which is no error
    }
  }
  ~Scratch() {
    if (data_ != nullptr) (void)cudaFreeAsync(data_, stream_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_;
};

bool is_capturing(const GpuStream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(handle_of(stream), &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

}  // namespace

Result<std::unique_ptr<LtProducts>> LtProducts::open(const GpuStream& stream) {
  const std::lock_guard lock(capture_mutex());  // creating a handle allocates memory of the device
  std::unique_ptr<LtProducts> products(new LtProducts());
  QUIRE_ASSIGN_OR_RETURN(products->lt_, CublasLt::load());
  QUIRE_RETURN_IF_ERROR(lt_status(products->lt_.create(&products->handle_), "cublasLtCreate"));
  QUIRE_RETURN_IF_ERROR(to_status(cudaEventCreate(&products->begin_), "making an event"));
  QUIRE_RETURN_IF_ERROR(to_status(cudaEventCreate(&products->end_), "making an event"));
  QUIRE_ASSIGN_OR_RETURN(std::string identity, identity_of(products->lt_));
  products->measured_ = AlgorithmCache(std::move(identity));
  products->cache_dir_ = stream.algorithm_cache_dir();
  if (!products->cache_dir_.empty()) {
    const Status read = products->measured_.read(products->cache_dir_);
    if (read.code() == StatusCode::kDataLoss)
      log_warn("{}; algorithms are measured again", read.message());
  }
  return products;
}

LtProducts::~LtProducts() {
  if (begin_ != nullptr) (void)cudaEventDestroy(begin_);
  if (end_ != nullptr) (void)cudaEventDestroy(end_);
  if (handle_ != nullptr) (void)lt_.destroy(handle_);
}

cublasStatus_t LtProducts::multiply(GpuStream& stream, const MatmulKey& key,
                                    const LtOperands& operands,
                                    const cublasLtMatmulAlgo_t& algorithm, const float* bias) {
  const Description description(lt_, key, operands.num_rows, operands, bias);
  if (description.status() != CUBLAS_STATUS_SUCCESS) return description.status();
  const float alpha = 1.0f;
  const float beta = key.accumulates ? 1.0f : 0.0f;
  return lt_.matmul(handle_, description.operation, &alpha, operands.weight, description.weight,
                    operands.x, description.x, &beta, operands.y, description.y, operands.y,
                    description.y, &algorithm, operands.workspace, kLtWorkspaceBytes,
                    handle_of(stream));
}

bool LtProducts::Algorithm::is_other_kernel() const {
  return std::all_of(std::begin(algorithm.data), std::end(algorithm.data),
                     [](uint64_t word) { return word == 0; });
}

MatmulKey LtProducts::as_asked(const MatmulKey& key, bool fuses_bias) {
  MatmulKey asked = key;
  if (key.has_bias && !fuses_bias) {
    asked.has_bias = false;
    asked.accumulates = true;
  }
  return asked;
}

Status LtProducts::run(GpuStream& stream, const MatmulKey& key, const LtOperands& operands,
                       const OtherKernel& other, const std::function<void()>& place_bias) {
  QUIRE_ASSIGN_OR_RETURN(const Algorithm* chosen, algorithm_for(stream, key, operands, other));
  if (chosen->is_other_kernel()) {
    other(operands.y);
    return {};
  }
  if (key.has_bias && !chosen->fuses_bias) place_bias();
  const float* bias = chosen->fuses_bias ? operands.bias : nullptr;
  return lt_status(
      multiply(stream, as_asked(key, chosen->fuses_bias), operands, chosen->algorithm, bias),
      "cublasLtMatmul");
}

bool LtProducts::supports(const MatmulKey& key) {
  alignas(16) static constexpr float kSomewhere[4] = {};  // an address that is never read
  const LtOperands operands{.weight_scales = kSomewhere, .x_scales = kSomewhere};
  const auto found = candidates(key, operands, nullptr, 1);
  return found.ok() && !found->empty();
}

Result<std::vector<cublasLtMatmulAlgo_t>> LtProducts::candidates(const MatmulKey& key,
                                                                 const LtOperands& operands,
                                                                 const float* bias, int max_count) {
  const Description description(lt_, key, key.rows, operands, bias);
  QUIRE_RETURN_IF_ERROR(lt_status(description.status(), "describing a product"));
  cublasLtMatmulPreference_t preference = nullptr;
  QUIRE_RETURN_IF_ERROR(
      lt_status(lt_.create_preference(&preference), "cublasLtMatmulPreferenceCreate"));
  (void)lt_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kLtWorkspaceBytes,
                           sizeof kLtWorkspaceBytes);
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    (void)lt_.set_preference(preference, alignment, &kLtOperandAlignment,
                             sizeof kLtOperandAlignment);
  }
  // Deterministic products must not be split over k, since the split would depend on the number of
  // rows. Others may be split, but the parts must not be added in y's type.
  const uint32_t schemes =
      key.deterministic ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  (void)lt_.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                           sizeof schemes);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(max_count));
  int count = 0;
  const cublasStatus_t status = lt_.get_heuristic(
      handle_, description.operation, description.weight, description.x, description.y,
      description.y, preference, max_count, results.data(), &count);
  (void)lt_.destroy_preference(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return algorithms;
  QUIRE_RETURN_IF_ERROR(lt_status(status, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < count; ++i) {
    if (results[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(results[static_cast<size_t>(i)].algo);
  }
  return algorithms;
}

float LtProducts::time_once(GpuStream& stream, const std::function<bool()>& product) {
  float milliseconds = -1.0f;
  const bool good = cudaEventRecord(begin_, handle_of(stream)) == cudaSuccess && product() &&
                    cudaEventRecord(end_, handle_of(stream)) == cudaSuccess &&
                    cudaEventSynchronize(end_) == cudaSuccess &&
                    cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
  return good ? milliseconds * 1e3f : -1.0f;
}

float LtProducts::measure(GpuStream& stream, const std::function<bool()>& product) {
  // In a forward pass a weight comes from memory, so the copy that the last run left in the cache
  // is flushed.
  const Scratch flush(stream, kFlushBytes);
  float best = time_once(stream, product);  // the first run also loads the kernel
  for (int i = 0; i < kTimedRuns && best >= 0.0f; ++i) {
    if (flush.data() != nullptr)
      (void)cudaMemsetAsync(flush.data(), 0, kFlushBytes, handle_of(stream));
    const float time = time_once(stream, product);
    best = i == 0 || time < best ? time : best;
  }
  return best;
}

void LtProducts::remember(const MatmulKey& key, const Algorithm& algorithm, float microseconds) {
  MeasuredAlgorithm measured{.fuses_bias = algorithm.fuses_bias, .microseconds = microseconds};
  static_assert(sizeof measured.words == sizeof algorithm.algorithm);
  std::memcpy(measured.words.data(), &algorithm.algorithm, sizeof measured.words);
  measured_.put(key, measured);
  if (cache_dir_.empty()) return;
  const Status written = measured_.write(cache_dir_);
  if (written.ok()) return;
  log_warn("algorithms: {}", written.message());
  cache_dir_.clear();  // warns only once
}

std::optional<LtProducts::Algorithm> LtProducts::choose(
    GpuStream& stream, const MatmulKey& key, const LtOperands& operands, const OtherKernel& other,
    const std::vector<cublasLtMatmulAlgo_t>& proposed, const Algorithm& first) {
  if (proposed.size() == 1 && other == nullptr) return first;
  if (is_capturing(stream)) return std::nullopt;
  const int64_t y_bytes = operands.num_rows * key.y_stride * size_bytes(key.y_type);
  const Scratch scratch(stream, static_cast<size_t>(y_bytes));
  if (scratch.data() == nullptr) return std::nullopt;
  LtOperands measured = operands;
  measured.y = scratch.data();
  const float* bias = first.fuses_bias ? operands.bias : nullptr;
  const MatmulKey asked = as_asked(key, first.fuses_bias);
  std::vector<float> times;
  for (const cublasLtMatmulAlgo_t& algorithm : proposed) {
    times.push_back(measure(stream, [&] {
      return multiply(stream, asked, measured, algorithm, bias) == CUBLAS_STATUS_SUCCESS;
    }));
  }
  if (other != nullptr) {
    times.push_back(measure(stream, [&] {
      other(measured.y);
      return true;
    }));
  }
  const int64_t best = fastest(times);
  if (best < 0) return std::nullopt;
  const auto index = static_cast<size_t>(best);
  Algorithm chosen;
  if (index < proposed.size()) chosen = {proposed[index], first.fuses_bias};
  remember(key, chosen, times[index]);
  return chosen;
}

// The algorithm is chosen once per key. Deterministic products take the library's own first choice,
// which is a pure function of the shape, the device and the library. Others take the fastest of
// those it proposes, as measured on the given operands.
Result<const LtProducts::Algorithm*> LtProducts::algorithm_for(GpuStream& stream,
                                                               const MatmulKey& key,
                                                               const LtOperands& operands,
                                                               const OtherKernel& other) {
  const auto found = algorithms_.find(key);
  if (found != algorithms_.end()) return &found->second;
  Algorithm algorithm;
  if (const MeasuredAlgorithm* known = key.deterministic ? nullptr : measured_.find(key)) {
    std::memcpy(&algorithm.algorithm, known->words.data(), sizeof algorithm.algorithm);
    algorithm.fuses_bias = known->fuses_bias;
    if (other != nullptr || !algorithm.is_other_kernel())
      return &algorithms_.emplace(key, algorithm).first->second;
    algorithm = {};
  }
  std::vector<cublasLtMatmulAlgo_t> proposed;
  if (key.has_bias) {
    const auto fused = candidates(key, operands, operands.bias, kMaxCandidates);
    if (fused.ok()) proposed = *fused;
    algorithm.fuses_bias = !proposed.empty();
  }
  if (proposed.empty()) {
    QUIRE_ASSIGN_OR_RETURN(proposed,
                           candidates(as_asked(key, false), operands, nullptr, kMaxCandidates));
  }
  if (proposed.empty()) {
    return internal_error("cuBLASLt: no algorithm for {} rows of [{}, {}]", key.rows, key.n, key.k);
  }
  algorithm.algorithm = proposed.front();
  if (key.deterministic) return &algorithms_.emplace(key, algorithm).first->second;
  const std::optional<Algorithm> chosen = choose(stream, key, operands, other, proposed, algorithm);
  if (chosen) return &algorithms_.emplace(key, *chosen).first->second;
  unmeasured_ = algorithm;  // the next call with this key measures
  return &unmeasured_;
}

}  // namespace quire::cuda
