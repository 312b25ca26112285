// The workspace of products by cuBLASLt, and the alignment of their operands.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::cuda {

inline constexpr size_t kLtWorkspaceBytes = size_t{32} << 20;
// The library refuses workspaces with less alignment, and an arena's allocations are aligned to
// less.
inline constexpr int64_t kLtWorkspaceAlignment = 256;
// The alignment of every matrix that the library is told; without it, the library would assume 256.
// A weight or an output's columns may begin anywhere in an arena's allocation. plain_linear() takes
// operands with less alignment.
inline constexpr uint32_t kLtOperandAlignment = 16;

inline bool is_lt_operand(const void* matrix) {
  return reinterpret_cast<uintptr_t>(matrix) % kLtOperandAlignment == 0;
}

struct LtMemory {
  std::byte* workspace = nullptr;  // kLtWorkspaceBytes, for the library
  std::byte* rows = nullptr;       // space for quantized rows of x
};
// Divides lt_memory_bytes() that begin anywhere; both parts begin at multiples of
// kLtWorkspaceAlignment.
inline LtMemory lt_memory(void* memory) {
  const uintptr_t past = reinterpret_cast<uintptr_t>(memory) % kLtWorkspaceAlignment;
  std::byte* const workspace =
      static_cast<std::byte*>(memory) + (past == 0 ? 0 : kLtWorkspaceAlignment - past);
  return {workspace, workspace + kLtWorkspaceBytes};
}
constexpr int64_t lt_memory_bytes(int64_t rows_bytes) {
  return static_cast<int64_t>(kLtWorkspaceBytes) + kLtWorkspaceAlignment + rows_bytes;
}

}  // namespace quire::cuda
