// KvCells: the order in which files hold KV, and copies between it and the blocks of an executor.
//
// A cell is what all layers keep of a few consecutive tokens of one sequence: layer by layer, KV
// head by KV head, keys before values before their scales, each laid out as in a block of just
// these tokens. So a file does not depend on the block size, ranks or stages of the writer. A
// reader copies each head to every rank that keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/kv_files.h"

namespace quire {

// All methods are pure functions over memory that is borrowed. Any thread may call them.
class KvCells {
 public:
  // `parts` are one or more, of one pool, and together have every strip. A block is `block_cells`
  // cells of `cell_tokens` tokens. kInternal: strips that hold the same data in several parts
  // differ in size, or there are no strips.
  static Result<KvCells> create(std::vector<HostBlocks> parts, int32_t block_cells,
                                int32_t cell_tokens);

  int64_t cell_bytes() const { return cell_bytes_; }
  int32_t block_cells() const { return block_cells_; }
  int32_t num_groups() const { return num_groups_; }
  // Returns the number of blocks of the part that has the fewest, block 0 included.
  int32_t num_blocks() const;
  const std::vector<HostBlocks>& parts() const { return parts_; }

  // Copies cell `cell` of a block to `out` [cell_bytes()]. `blocks` [num_groups()] are the block's
  // ids.
  void gather(std::span<const BlockId> blocks, int32_t cell, std::byte* out) const;
  // Copies a cell to every part that holds some of it. `blocks` is as in gather().
  void scatter(const std::byte* in, std::span<const BlockId> blocks, int32_t cell) const;

 private:
  struct Place {
    size_t part = 0;
    KvStrip strip;
    int64_t cell_offset = 0;  // where the strip begins in a cell
    bool is_first = false;    // the first of the places that hold the same data
  };

  KvCells() = default;
  Status place_all(int32_t cell_tokens);
  template <typename Copy>
  void visit(std::span<const BlockId> blocks, int32_t cell, const Place& place,
             const Copy& copy) const;

  std::vector<HostBlocks> parts_;
  std::vector<Place> places_;
  int64_t cell_bytes_ = 0;
  int32_t block_cells_ = 0;
  int32_t cell_tokens_ = 0;
  int32_t num_groups_ = 0;
};

}  // namespace quire
