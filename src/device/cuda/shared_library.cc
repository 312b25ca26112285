#include "device/cuda/shared_library.h"

#include <dlfcn.h>

namespace quire::cuda {

Result<SharedLibrary> SharedLibrary::open(std::initializer_list<const char*> names) {
  std::string tried;
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return SharedLibrary(handle, name);
    tried += tried.empty() ? name : std::string(", ") + name;
  }
  return Status(StatusCode::kUnavailable, "CUDA: cannot load " + tried);
}

Status SharedLibrary::find(const char* name, void*& address) const {
  address = dlsym(handle_, name);
  if (address != nullptr) return {};
  return {StatusCode::kUnavailable, fmt::format("CUDA: {} has no {}", name_, name)};
}

}  // namespace quire::cuda
