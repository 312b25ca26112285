#include "server/models/shelf_book.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace quire::server {

std::optional<int64_t> ShelfBook::Row::expires_us() const {
  if (!is_idle() || !keep_alive_us) return std::nullopt;
  return last_use_us + *keep_alive_us;
}

void ShelfBook::add(std::string_view name, int64_t bytes, int64_t now_us,
                    std::optional<int64_t> keep_alive_us) {
  const bool is_new = rows_.emplace(std::string(name), Row{bytes, 0, now_us, keep_alive_us}).second;
  QUIRE_CHECK(is_new, "{} is loaded already", name);
}

void ShelfBook::erase(std::string_view name) {
  const auto found = rows_.find(name);
  QUIRE_CHECK(found != rows_.end() && found->second.is_idle(), "{} is in use, or not loaded", name);
  rows_.erase(found);
}

void ShelfBook::begin_use(std::string_view name, int64_t now_us) {
  Row& used = row(name);
  ++used.num_uses;
  used.last_use_us = std::max(used.last_use_us, now_us);
}

void ShelfBook::end_use(std::string_view name, int64_t now_us) {
  Row& used = row(name);
  QUIRE_CHECK(used.num_uses > 0, "{} is not in use", name);
  --used.num_uses;
  used.last_use_us = std::max(used.last_use_us, now_us);
}

ShelfBook::Row& ShelfBook::row(std::string_view name) {
  const auto found = rows_.find(name);
  QUIRE_CHECK(found != rows_.end(), "{} is not loaded", name);
  return found->second;
}

const ShelfBook::Row* ShelfBook::find(std::string_view name) const {
  const auto found = rows_.find(name);
  return found == rows_.end() ? nullptr : &found->second;
}

int64_t ShelfBook::bytes_loaded() const {
  int64_t sum = 0;
  for (const auto& [name, row] : rows_) sum += row.bytes;
  return sum;
}

std::optional<std::vector<std::string>> ShelfBook::victims_for(int64_t bytes) const {
  if (limits_.max_bytes > 0 && bytes > limits_.max_bytes) return std::nullopt;
  std::vector<std::tuple<bool, int64_t, std::string>> order;  // in use, last use, name
  for (const auto& [name, row] : rows_) order.emplace_back(!row.is_idle(), row.last_use_us, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> victims;
  int64_t held = bytes_loaded();
  for (const auto& [in_use, last_use_us, name] : order) {
    const size_t num_left = rows_.size() - victims.size();
    const bool has_place = num_left < static_cast<size_t>(limits_.max_loaded);
    if (has_place && (limits_.max_bytes == 0 || held + bytes <= limits_.max_bytes)) break;
    held -= find(name)->bytes;
    victims.push_back(name);
  }
  return victims;
}

std::vector<std::string> ShelfBook::expired(int64_t now_us) const {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) {
    if (const auto end_us = row.expires_us(); end_us && *end_us <= now_us) names.push_back(name);
  }
  return names;
}

std::optional<int64_t> ShelfBook::next_expiry_us() const {
  std::optional<int64_t> next;
  for (const auto& [name, row] : rows_) {
    const auto end_us = row.expires_us();
    if (end_us && (!next || *end_us < *next)) next = end_us;
  }
  return next;
}

std::string ShelfBook::most_recent() const {
  const auto last = std::max_element(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) {
    return a.second.last_use_us < b.second.last_use_us;
  });
  return last == rows_.end() ? std::string() : last->first;
}

}  // namespace quire::server
