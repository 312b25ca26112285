#include "kernels/cuda/linear/library/lt_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/linear/fp8_linear.h"
#include "tensor/arena.h"

namespace quire::cuda {
namespace {

template <typename T>
uintptr_t address(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

// Wherever the memory of a product begins, the library's part begins at a multiple of 256, and the
// part behind it ends within the requested bytes. Nothing is read here.
TEST(LtMemory, IsAlignedAtEveryOffsetOfAPlan) {
  for (int64_t offset = 0; offset < 1024; offset += Arena::kAlignment) {
    for (const int64_t k : {16, 48, 528, 4096, 14336}) {
      for (const int64_t rows : {1, 3, 17, 256, 8191}) {
        auto* const memory = reinterpret_cast<std::byte*>(uintptr_t{1} << 40) + offset;
        const int64_t rows_bytes = fp8_rows_bytes(rows, k);
        const LtMemory cut = lt_memory(memory);
        ASSERT_EQ(address(cut.workspace) % 256, 0u) << offset;
        ASSERT_GE(address(cut.workspace), address(memory));
        ASSERT_GE(address(cut.rows), address(cut.workspace) + kLtWorkspaceBytes);
        const Fp8Rows x = fp8_rows(cut.rows, rows, k);
        EXPECT_TRUE(is_lt_operand(x.codes) && is_lt_operand(x.scales)) << rows << " x " << k;
        EXPECT_LE(address(cut.rows) + static_cast<uintptr_t>(rows_bytes),
                  address(memory) + static_cast<uintptr_t>(lt_memory_bytes(rows_bytes)));
      }
    }
  }
}

// Columns of an output that are a part of a matrix are either aligned as the library is told, or
// the library is not used. Heads of 12 dims of bf16 are not aligned.
TEST(LtMemory, PartsOfAMatrixBeginWhereTheLibraryIsTold) {
  const std::byte* const y = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  for (int64_t head_dim = 2; head_dim <= 256; head_dim += 2) {
    for (const int64_t heads : {1, 3, 8}) {
      const int64_t first = heads * head_dim;
      EXPECT_EQ(is_lt_operand(y + first * 2), first % 8 == 0) << first;
      EXPECT_EQ(is_lt_operand(y + first * 4), first % 4 == 0) << first;
    }
  }
}

}  // namespace
}  // namespace quire::cuda
