#include "core/hidden_rows.h"

#include <algorithm>

#include "base/check.h"

namespace quire {

void HiddenRows::put(RequestId id, int32_t position, std::span<const float> row) {
  Rows& rows = requests_[id];
  if (rows.data.empty() || position < rows.begin || position > rows.end()) {
    rows.data.clear();
    rows.begin = position;
    rows.width = std::max<size_t>(1, row.size());
  }
  QUIRE_CHECK(row.size() == rows.width, "a hidden row of {} among those of {}", row.size(),
              rows.width);
  rows.data.resize(static_cast<size_t>(position - rows.begin) * rows.width);
  rows.data.insert(rows.data.end(), row.begin(), row.end());
}

HiddenRows::Range HiddenRows::range(RequestId id) const {
  const auto it = requests_.find(id);
  if (it == requests_.end() || it->second.data.empty()) return {};
  return {it->second.begin, it->second.end()};
}

std::span<const float> HiddenRows::row(RequestId id, int32_t position) const {
  QUIRE_CHECK(range(id).contains(position), "no hidden row at position {}", position);
  const Rows& rows = requests_.at(id);
  return std::span(rows.data).subspan(static_cast<size_t>(position - rows.begin) * rows.width,
                                      rows.width);
}

void HiddenRows::drop_before(RequestId id, int32_t position) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Rows& rows = it->second;
  const auto count = static_cast<size_t>(std::clamp(position, rows.begin, rows.end()) - rows.begin);
  rows.data.erase(rows.data.begin(),
                  rows.data.begin() + static_cast<std::ptrdiff_t>(count * rows.width));
  rows.begin += static_cast<int32_t>(count);
}

void HiddenRows::drop_from(RequestId id, int32_t position) {
  const auto it = requests_.find(id);
  if (it == requests_.end()) return;
  Rows& rows = it->second;
  const auto kept = static_cast<size_t>(std::clamp(position, rows.begin, rows.end()) - rows.begin);
  rows.data.resize(kept * rows.width);
}

void HiddenRows::forget(RequestId id) {
  requests_.erase(id);
  first_positions_.erase(id);
}

int32_t HiddenRows::first_position(RequestId id) const {
  const auto it = first_positions_.find(id);
  return it == first_positions_.end() ? 0 : it->second;
}

int64_t HiddenRows::num_rows() const {
  int64_t sum = 0;
  for (const auto& [id, rows] : requests_)
    sum += static_cast<int64_t>(rows.data.size() / rows.width);
  return sum;
}

}  // namespace quire
