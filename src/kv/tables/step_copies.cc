#include "kv/tables/step_copies.h"

#include <algorithm>

namespace quire {

void StepCopies::begin_step() {
  copies_.clear();
  sources_.release();
}

void StepCopies::add(BlockStore& store, BlockId source) {
  sources_.add(store, source);
  store.note_access(source);
  copies_.push_back({.source = source, .pool = store.name()});
}

void StepCopies::set_destination(size_t i, BlockId block) {
  copies_[i].destination = block;
  ++num_total_;
}

void StepCopies::forget_copies_to(KvPool pool, std::span<const BlockId> blocks) {
  std::erase_if(copies_, [&](const BlockCopy& copy) {
    return copy.pool == pool &&
           std::find(blocks.begin(), blocks.end(), copy.destination) != blocks.end();
  });
}

}  // namespace quire
