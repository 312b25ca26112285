#include "kernels/cuda/linear/library/cublas_lt.h"

#include "device/cuda/shared_library.h"

namespace quire::cuda {

Result<CublasLt> CublasLt::load() {
  QUIRE_ASSIGN_OR_RETURN(const SharedLibrary library,
                         SharedLibrary::open({"libcublasLt.so.13", "libcublasLt.so.12",
                                              // the toolkit, where the loader does not look
                                              "/usr/local/cuda/lib64/libcublasLt.so.13",
                                              "/usr/local/cuda/lib64/libcublasLt.so.12"}));
  CublasLt lt;
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtCreate", lt.create));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtDestroy", lt.destroy));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtGetVersion", lt.version));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmul", lt.matmul));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulAlgoGetHeuristic", lt.get_heuristic));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulDescCreate", lt.create_description));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulDescDestroy", lt.destroy_description));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulDescSetAttribute", lt.set_description));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatrixLayoutCreate", lt.create_layout));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatrixLayoutDestroy", lt.destroy_layout));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulPreferenceCreate", lt.create_preference));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulPreferenceDestroy", lt.destroy_preference));
  QUIRE_RETURN_IF_ERROR(library.load("cublasLtMatmulPreferenceSetAttribute", lt.set_preference));
  return lt;
}

}  // namespace quire::cuda
