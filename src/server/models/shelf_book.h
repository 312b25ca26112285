// Which models of a folder are in memory, and who has to go for another: names, counts and times
// only. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

struct ShelfLimits {
  int32_t max_loaded = 1;
  int64_t max_bytes = 0;  // of all models in memory; 0: no bound
};

class ShelfBook {
 public:
  struct Row {
    int64_t bytes = 0;
    int64_t num_uses = 0;
    int64_t last_use_us = 0;
    // How long it stays after its last use; nullopt: until its place is wanted.
    std::optional<int64_t> keep_alive_us;

    bool is_idle() const { return num_uses == 0; }
    std::optional<int64_t> expires_us() const;  // nullopt also while it is in use
  };

  explicit ShelfBook(ShelfLimits limits) : limits_(limits) {}

  // Of models that are in memory, or are about to be.
  void add(std::string_view name, int64_t bytes, int64_t now_us,
           std::optional<int64_t> keep_alive_us);
  void set_bytes(std::string_view name, int64_t bytes) { row(name).bytes = bytes; }
  void erase(std::string_view name);
  void begin_use(std::string_view name, int64_t now_us);
  void end_use(std::string_view name, int64_t now_us);
  Row& row(std::string_view name);
  const Row* find(std::string_view name) const;

  const ShelfLimits& limits() const { return limits_; }
  size_t num_loaded() const { return rows_.size(); }
  int64_t bytes_loaded() const;
  // Who has to go so that a model of this size fits: idle ones before those in use, and of each the
  // least recently used first; no more than are needed. nullopt: it is larger than the bound.
  std::optional<std::vector<std::string>> victims_for(int64_t bytes) const;
  // Idle models whose time is over.
  std::vector<std::string> expired(int64_t now_us) const;
  // When the next one's is; nullopt: never.
  std::optional<int64_t> next_expiry_us() const;
  // The last that was used; empty: none is loaded.
  std::string most_recent() const;

 private:
  const ShelfLimits limits_;
  std::map<std::string, Row, std::less<>> rows_;
};

}  // namespace quire::server
