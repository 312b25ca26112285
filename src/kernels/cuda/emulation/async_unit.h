// An AsyncUnit does on a CPU what a Hopper block does asynchronously: copies that signal barriers
// in shared memory, and warpgroup products. Both end as late as a GPU may let them: copies when
// every thread waits, products when they are waited for. Until then the sums of a product are NaN,
// and its operands are read only at its end, so that a read or an overwrite that comes too early
// gives wrong numbers. The unit does not see writes to shared memory that were not published to it
// (publish_shared_writes()).
//
// It is a part of a Block, with the same rules.
//
// It is a part of a Block, with the same rules.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/cuda/emulation/block.h"
#include "kernels/cuda/warpgroup_layout.h"

namespace quire::cuda::emulation {

// What a tensor map describes: a bf16 tensor, of which boxes of 64 x box_rows are copied.
struct BoxedTensor {
  const void* base = nullptr;
  std::array<int64_t, 4> sizes{};
  std::array<int64_t, 4> strides{1};  // elements
  int box_rows = 0;
};

// The operands of a product: 32 bytes along k of each. Sums of int8 are int32, all others float.
enum class Operands { kBF16, kE4M3, kInt8 };

struct Product {
  void* d = nullptr;  // [num_tiles][4] sums, the thread's part
  int num_tiles = 8;  // 8 columns each
  const uint32_t* a_registers = nullptr;
  uint64_t a = 0;  // descriptors
  uint64_t b = 0;
  bool b_is_by_rows = false;  // only for bf16
  bool adds = false;
  Operands operands = Operands::kBF16;
};

class AsyncUnit {
 public:
  explicit AsyncUnit(Block& block);
  ~AsyncUnit();
  // Returns the unit of the block that runs at present.
  static AsyncUnit& current() { return Block::current().async_unit(); }

  void init(uint64_t* barrier, int arrivals);
  void arrive(uint64_t* barrier, int expected_bytes);
  void wait(uint64_t* barrier, uint32_t parity);

  void copy_bulk(void* shared, const void* global, int num_bytes, uint64_t* barrier);
  void copy_box(void* shared, const BoxedTensor& tensor, const std::array<int, 4>& at,
                uint64_t* barrier);
  // Ends every copy in flight. Returns false if there was none.
  bool land_copies();

  void multiply(const Product& product);
  void commit_products();
  void wait_products(int pending);
  // CHECKs that no product in flight has sums here.
  void check_free(const void* d) const;

 private:
  struct SharedBarrier;
  struct Copy;
  struct Products;

  SharedBarrier& barrier_at(const uint64_t* barrier);
  void end_phase_if_done(SharedBarrier& barrier);
  void land_box(const Copy& copy);
  const uint8_t* operand_at(uint64_t descriptor, int row, int byte) const;
  void load_registers(const uint32_t* registers, float (&a)[2][16]);
  template <class Element>
  void run(const Product& product, void* sums);
  Products& mine();

  Block& block_;
  std::map<const uint64_t*, std::unique_ptr<SharedBarrier>> barriers_;
  std::vector<Copy> copies_;
  std::vector<std::unique_ptr<Products>> products_;  // by thread
};

}  // namespace quire::cuda::emulation
