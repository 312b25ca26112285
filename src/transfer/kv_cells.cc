#include "transfer/kv_cells.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace quire {
namespace {

auto order_of(const KvStrip& strip) { return std::tie(strip.layer, strip.head, strip.part); }

// Copies of a fixed size compile to a few moves; most rows of a cell have one of these sizes.
void copy_bytes(std::byte* to, const std::byte* from, int64_t count) {
  switch (count) {
    case 16:
      std::memcpy(to, from, 16);
      return;
    case 32:
      std::memcpy(to, from, 32);
      return;
    case 64:
      std::memcpy(to, from, 64);
      return;
    default:
      std::memcpy(to, from, static_cast<size_t>(count));
  }
}

}  // namespace

Result<KvCells> KvCells::create(std::vector<HostBlocks> parts, int32_t block_cells,
                                int32_t cell_tokens) {
  KvCells cells;
  cells.parts_ = std::move(parts);
  cells.block_cells_ = block_cells;
  QUIRE_RETURN_IF_ERROR(cells.place_all(cell_tokens));
  return cells;
}

Status KvCells::place_all(int32_t cell_tokens) {
  cell_tokens_ = cell_tokens;
  for (size_t part = 0; part < parts_.size(); ++part) {
    for (const KvStrip& strip : parts_[part].strips) {
      places_.push_back({.part = part, .strip = strip});
      num_groups_ = std::max(num_groups_, strip.group + 1);
    }
  }
  std::stable_sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return order_of(a.strip) < order_of(b.strip);
  });
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const KvStrip& strip = place.strip;
    if (i > 0 && order_of(places_[i - 1].strip) == order_of(strip)) {
      const KvStrip& same = places_[i - 1].strip;
      if (same.num_rows != strip.num_rows || same.token_bytes != strip.token_bytes ||
          same.group != strip.group) {
        return internal_error("KV cells: ranks keep head {} of layer {} in unlike shapes",
                              strip.head, strip.layer);
      }
      place.cell_offset = places_[i - 1].cell_offset;
      continue;
    }
    place.is_first = true;
    place.cell_offset = cell_bytes_;
    cell_bytes_ += strip.num_rows * cell_tokens * strip.token_bytes;
  }
  if (cell_bytes_ == 0) return internal_error("KV cells: expected layers that keep something");
  return {};
}

int32_t KvCells::num_blocks() const {
  int32_t least = parts_.front().num_blocks;
  for (const HostBlocks& part : parts_) least = std::min(least, part.num_blocks);
  return least;
}

// Calls copy(at, offset, count) for each row of the place: its address, and its offset in the cell.
template <typename Copy>
void KvCells::visit(std::span<const BlockId> blocks, int32_t cell, const Place& place,
                    const Copy& copy) const {
  const HostBlocks& part = parts_[place.part];
  const KvStrip& strip = place.strip;
  const int64_t count = cell_tokens_ * strip.token_bytes;
  const int64_t row_bytes = count * block_cells_;
  const BlockId block = blocks[static_cast<size_t>(strip.group)];
  std::byte* at = part.data + int64_t{block.value} * part.block_bytes + strip.offset_bytes +
                  int64_t{cell} * count;
  int64_t offset = place.cell_offset;
  for (int32_t row = 0; row < strip.num_rows; ++row, at += row_bytes, offset += count)
    copy(at, offset, count);
}

void KvCells::gather(std::span<const BlockId> blocks, int32_t cell, std::byte* out) const {
  for (const Place& place : places_) {
    if (!place.is_first) continue;
    visit(blocks, cell, place, [out](const std::byte* at, int64_t offset, int64_t count) {
      copy_bytes(out + offset, at, count);
    });
  }
}

void KvCells::scatter(const std::byte* in, std::span<const BlockId> blocks, int32_t cell) const {
  for (const Place& place : places_) {
    visit(blocks, cell, place, [in](std::byte* at, int64_t offset, int64_t count) {
      copy_bytes(at, in + offset, count);
    });
  }
}

}  // namespace quire
