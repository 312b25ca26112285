// KvCells: the order in which files hold KV, and the way between it and the blocks of an executor.
//
// A cell is what all layers keep of a few consecutive tokens of one sequence: layer after layer, KV
// head after KV head, keys before values before their scales, each as a block of just these tokens has
// it. So neither block sizes nor the ranks and stages of who wrote it show in a file, and whoever reads
// it puts each head where it keeps it: on several ranks, where several keep it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/kv_files.h"

namespace quire {

// KvCells is pure functions over memory that is borrowed. Any thread may call them.
class KvCells {
 public:
  // `parts`: one or more, of one pool, which together have every strip. A block is `block_cells` cells of
  // `cell_tokens` tokens. kInternal: strips of several parts that are to hold the same have unlike
  // sizes, or there are none.
  static Result<KvCells> create(std::vector<HostBlocks> parts, int32_t block_cells,
                                int32_t cell_tokens);

  int64_t cell_bytes() const { return cell_bytes_; }
  int32_t block_cells() const { return block_cells_; }
  int32_t num_groups() const { return num_groups_; }
  // Returns the fewest blocks that a part has, block 0 included.
  int32_t num_blocks() const;
  const std::vector<HostBlocks>& parts() const { return parts_; }

  // Copies cell `cell` of a block, which is `blocks` [num_groups()], to `out` [cell_bytes()].
  void gather(std::span<const BlockId> blocks, int32_t cell, std::byte* out) const;
  // Copies a cell to all blocks that hold a part of it.
  void scatter(const std::byte* in, std::span<const BlockId> blocks, int32_t cell) const;

 private:
  struct Place {
    size_t part = 0;
    KvStrip strip;
    int64_t cell_offset = 0;  // of the strip in a cell
    bool is_first = false;    // of those that hold the same
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
