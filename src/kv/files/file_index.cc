#include "kv/files/file_index.h"

#include <algorithm>
#include <utility>

namespace quire {

// --- Cells ---

// Returns the slot of this hash, or the empty one that it would take. There always is one.
size_t FileIndex::slot_of(const KvHash& hash) const {
  size_t i = home(hash);
  while (slots_[i].file >= 0 && !(hash_at(slots_[i]) == hash)) i = after(i);
  return i;
}

std::optional<FileIndex::Place> FileIndex::find(const KvHash& hash) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(hash)];
  if (slot.file < 0) return std::nullopt;
  return Place{slot.file, slot.cell};
}

void FileIndex::grow(size_t num_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(num_slots));
  for (const Slot& slot : old) {
    if (slot.file >= 0) slots_[slot_of(hash_at(slot))] = slot;
  }
}

// Inserts a slot. If several files have one cell, the first is found.
void FileIndex::insert(Slot slot) {
  constexpr size_t kFewestSlots = 64;
  if (static_cast<size_t>(num_cells_ + 1) * 4 > slots_.size() * 3)
    grow(std::max(kFewestSlots, slots_.size() * 2));
  Slot& at = slots_[slot_of(hash_at(slot))];
  if (at.file >= 0) return;
  at = slot;
  ++num_cells_;
}

// Moves entries behind the gap into it where needed, so that searches still find them.
void FileIndex::close_gap(size_t gap) {
  slots_[gap] = {};
  for (size_t i = after(gap); slots_[i].file >= 0; i = after(i)) {
    const size_t wanted = home(hash_at(slots_[i]));
    const bool may_move = gap <= i ? wanted <= gap || wanted > i : wanted <= gap && wanted > i;
    if (!may_move) continue;
    slots_[gap] = std::exchange(slots_[i], {});
    gap = i;
  }
}

// --- Files ---

void FileIndex::add(KvRun run) {
  if (contains(run.file)) return;
  int32_t handle;
  if (free_handles_.empty()) {
    handle = static_cast<int32_t>(files_.size());
    files_.emplace_back();
  } else {
    handle = free_handles_.back();
    free_handles_.pop_back();
  }
  File& file = files_[static_cast<size_t>(handle)];
  file = {.run = std::move(run)};
  file.place = probation_.insert(probation_.end(), handle);
  by_name_.emplace(file.run.file, handle);
  num_bytes_ += file.run.num_bytes;
  for (int32_t i = 0; i < file.run.num_cells(); ++i) insert({handle, i});
}

void FileIndex::erase(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  const int32_t handle = found->second;
  File& file = files_[static_cast<size_t>(handle)];
  for (const KvHash& hash : file.run.hashes) {
    const size_t slot = slot_of(hash);
    if (slots_[slot].file != handle) continue;
    close_gap(slot);
    --num_cells_;
  }
  num_bytes_ -= file.run.num_bytes;
  if (file.is_protected) protected_bytes_ -= file.run.num_bytes;
  (file.is_protected ? protected_ : probation_).erase(file.place);
  by_name_.erase(found);
  file = {};
  free_handles_.push_back(handle);
}

void FileIndex::use(int32_t handle) {
  File& file = files_[static_cast<size_t>(handle)];
  if (!file.is_protected) protected_bytes_ += file.run.num_bytes;
  protected_.splice(protected_.end(), file.is_protected ? protected_ : probation_, file.place);
  file.is_protected = true;
  demote_excess();
}

void FileIndex::use(const std::string& name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) use(found->second);
}

void FileIndex::demote_excess() {
  const auto most = static_cast<int64_t>(kProtectedShare * static_cast<double>(capacity_bytes_));
  while (protected_bytes_ > most && protected_.size() > 1) {
    File& oldest = files_[static_cast<size_t>(protected_.front())];
    oldest.is_protected = false;
    protected_bytes_ -= oldest.run.num_bytes;
    probation_.splice(probation_.end(), protected_, oldest.place);
  }
}

void FileIndex::pin(const std::string& name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) pin(found->second);
}

void FileIndex::unpin(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  File& file = files_[static_cast<size_t>(found->second)];
  if (file.num_pins > 0) --file.num_pins;  // 0: another file of that name has been added since
}

bool FileIndex::make_room(int64_t num_bytes, std::vector<std::string>& victims) const {
  int64_t excess = num_bytes_ + num_bytes - capacity_bytes_;
  for (const std::list<int32_t>* files : {&probation_, &protected_}) {
    for (auto it = files->begin(); it != files->end() && excess > 0; ++it) {
      const File& file = files_[static_cast<size_t>(*it)];
      if (file.num_pins > 0) continue;
      excess -= file.run.num_bytes;
      victims.push_back(file.run.file);
    }
  }
  return excess <= 0;
}

int64_t FileIndex::book_bytes() const {
  constexpr size_t kPerFile = sizeof(File) + 160;  // its name twice, and its places in list and map
  return static_cast<int64_t>(slots_.size() * sizeof(Slot) + by_name_.size() * kPerFile) +
         num_cells_ * static_cast<int64_t>(sizeof(KvHash));
}

}  // namespace quire
