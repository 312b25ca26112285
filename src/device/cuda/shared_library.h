// Libraries of the CUDA toolkit are loaded when they are first needed, so that one program also
// starts where they, or the driver, are absent.
#pragma once

#include <initializer_list>
#include <string>

#include "base/result.h"

namespace quire::cuda {

// A library that has been loaded stays loaded until the process ends.
class SharedLibrary {
 public:
  // Loads the first of `names` that can be loaded. kUnavailable: none can; the message names them
  // all.
  static Result<SharedLibrary> open(std::initializer_list<const char*> names);

  // Sets `function` to the library's function `name`.
  template <typename Function>
  Status load(const char* name, Function*& function) const {
    void* address = nullptr;
    QUIRE_RETURN_IF_ERROR(find(name, address));
    function = reinterpret_cast<Function*>(address);
    return {};
  }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  Status find(const char* name, void*& address) const;

  void* handle_;
  std::string name_;
};

}  // namespace quire::cuda
