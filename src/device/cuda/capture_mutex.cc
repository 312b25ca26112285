#include "device/cuda/capture_mutex.h"

namespace quire::cuda {

std::recursive_mutex& capture_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace quire::cuda
