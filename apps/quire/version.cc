#include "quire/version.h"

#include <fmt/format.h>

#include "device/cuda_device.h"
#include "device/isa.h"
#include "quire/commit.h"

namespace quire {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

std::string machine_isas() {
  std::string out;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (has_isa(isa)) out += fmt::format("{}{}", out.empty() ? "" : ", ", to_string(isa));
  }
  return out;
}

}  // namespace

std::string_view version_name() { return "quire " QUIRE_VERSION; }

std::string version_text() {
  return fmt::format(
      "{}\ncommit {}\ncompiled by {} ({})\nCPU kernels that run here: {}\nCUDA kernels: {}",
      version_name(), kCommit, kCompiler, QUIRE_BUILD_TYPE, machine_isas(),
      built_with_cuda() ? "in this build" : "not in this build");
}

}  // namespace quire
