// FileIndex: which cells are in which file, and which files are removed to make room. Ids and
// counts only. One thread may use it.
//
// Files are kept in two lists by use, as segmented LRU caches do (Karedla, Love and Wherry,
// "Caching strategies to improve disk system performance", 1994): a new file is on probation, a
// file that was used is protected, and files beyond the protected share go back on probation. Files
// on probation are removed first, so that a scan of prompts that are never asked for again
// displaces no file that was used.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/kv_files.h"

namespace quire {

class FileIndex {
 public:
  explicit FileIndex(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  struct Place {
    int32_t file = 0;  // handle, valid until the file is erased
    int32_t cell = 0;  // index in the file's run
  };
  std::optional<Place> find(const KvHash& hash) const;
  const KvRun& run(int32_t file) const { return files_[static_cast<size_t>(file)].run; }
  bool contains(const std::string& name) const { return by_name_.contains(name); }

  // Returns whether num_bytes more fit once the files of `victims`, which it fills in, are erased.
  bool make_room(int64_t num_bytes, std::vector<std::string>& victims) const;
  // Adds a file, even beyond the capacity. Has no effect if the file is there already.
  void add(KvRun run);
  void erase(const std::string& name);
  // These two record that the file was used.
  void use(int32_t file);
  void use(const std::string& name);
  // Keeps the file from make_room() until it was unpinned as often.
  void pin(int32_t file) { ++files_[static_cast<size_t>(file)].num_pins; }
  void pin(const std::string& name);
  void unpin(const std::string& name);

  int64_t num_bytes() const { return num_bytes_; }
  int64_t num_files() const { return static_cast<int64_t>(by_name_.size()); }
  int64_t num_cells() const { return num_cells_; }
  // Returns the approximate memory of the index, in bytes.
  int64_t book_bytes() const;

 private:
  static constexpr double kProtectedShare = 0.8;
  struct File {
    KvRun run;
    bool is_protected = false;
    int32_t num_pins = 0;
    std::list<int32_t>::iterator place;
  };
  struct Slot {
    int32_t file = -1;  // -1: empty
    int32_t cell = 0;
  };
  size_t home(const KvHash& hash) const { return hash.low & (slots_.size() - 1); }
  size_t after(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  const KvHash& hash_at(const Slot& slot) const {
    return run(slot.file).hashes[static_cast<size_t>(slot.cell)];
  }
  size_t slot_of(const KvHash& hash) const;
  void grow(size_t num_slots);
  void insert(Slot slot);
  void close_gap(size_t gap);
  void demote_excess();

  const int64_t capacity_bytes_;
  std::vector<File> files_;  // by handle
  std::vector<int32_t> free_handles_;
  std::unordered_map<std::string, int32_t> by_name_;
  std::vector<Slot> slots_;                   // the size is a power of two, or 0
  std::list<int32_t> probation_, protected_;  // least recently used first
  int64_t num_bytes_ = 0;
  int64_t protected_bytes_ = 0;
  int64_t num_cells_ = 0;
};

}  // namespace quire
