#include "kernels/cuda/linear/library/algorithm_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/hash/fnv1a.h"

namespace quire::cuda {
namespace {

constexpr std::string_view kMagic = "quire-algorithms 1";

std::string path_in(const std::string& dir, std::string_view identity) {
  return (std::filesystem::path(dir) / fmt::format("{:016x}.algorithms", fnv1a(identity))).string();
}

uint32_t flags_of(const MatmulKey& key) {
  return uint32_t{key.has_bias} | uint32_t{key.accumulates} << 1 |
         uint32_t{key.deterministic} << 2 | uint32_t{key.is_fp8} << 3;
}

// Fields takes numbers off the front of a line; each but the first must follow one space.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}

  template <typename T>
  bool take(T& value, int base = 10) {
    if (!is_first_ && (rest_.empty() || rest_.front() != ' ')) return false;
    if (!is_first_) rest_.remove_prefix(1);
    is_first_ = false;
    std::from_chars_result result{};
    if constexpr (std::is_floating_point_v<T>) {
      result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    } else {
      result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    }
    if (result.ec != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(result.ptr - rest_.data()));
    return true;
  }
  bool is_empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_first_ = true;
};

using Entry = std::pair<MatmulKey, MeasuredAlgorithm>;

bool parse_entry(std::string_view line, Entry& entry) {
  auto& [key, algorithm] = entry;
  Fields fields(line);
  uint32_t type = 0, flags = 0, fuses_bias = 0;
  bool good = fields.take(key.n) && fields.take(key.k) && fields.take(key.rows) &&
              fields.take(key.x_stride) && fields.take(key.y_stride) && fields.take(type) &&
              fields.take(flags) && fields.take(algorithm.microseconds) && fields.take(fuses_bias);
  for (uint64_t& word : algorithm.words) good = good && fields.take(word, 16);
  const bool is_float32 = type == static_cast<uint32_t>(DType::kF32);
  const bool is_bf16 = type == static_cast<uint32_t>(DType::kBF16);
  if (!good || !fields.is_empty() || flags > 15 || fuses_bias > 1 || !(is_float32 || is_bf16) ||
      key.n < 1 || key.k < 1 || key.rows < 1 || !std::isfinite(algorithm.microseconds)) {
    return false;
  }
  key.y_type = is_float32 ? DType::kF32 : DType::kBF16;
  key.has_bias = (flags & 1) != 0;
  key.accumulates = (flags & 2) != 0;
  key.deterministic = (flags & 4) != 0;
  key.is_fp8 = (flags & 8) != 0;
  algorithm.fuses_bias = fuses_bias == 1;
  return true;
}

// Takes the text up to and including the next line break. Returns false if there is none.
bool take_line(std::string_view& text, std::string_view& line) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

const MeasuredAlgorithm* AlgorithmCache::find(const MatmulKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void AlgorithmCache::put(const MatmulKey& key, const MeasuredAlgorithm& algorithm) {
  entries_[key] = algorithm;
}

std::string AlgorithmCache::to_text() const {
  std::string text = fmt::format("{}\nfor {}\n", kMagic, identity_);
  for (const auto& [key, algorithm] : entries_) {
    text += fmt::format("{} {} {} {} {} {} {} {} {}", key.n, key.k, key.rows, key.x_stride,
                        key.y_stride, static_cast<uint32_t>(key.y_type), flags_of(key),
                        algorithm.microseconds, algorithm.fuses_bias ? 1 : 0);
    for (const uint64_t word : algorithm.words) text += fmt::format(" {:x}", word);
    text += '\n';
  }
  return with_sum(std::move(text));
}

std::string AlgorithmCache::with_sum(std::string text) {
  const uint64_t sum = fnv1a(text);
  return std::move(text) + fmt::format("sum {:016x}\n", sum);
}

Status AlgorithmCache::add_text(std::string_view text) {
  const auto damaged = [](const char* what) { return data_loss("algorithms: expected {}", what); };
  std::string_view line, rest = text;
  if (!take_line(rest, line) || line != kMagic) return damaged("a file of this version");
  if (!take_line(rest, line) || line != "for " + identity_)
    return damaged("this device and library");
  std::vector<Entry> entries;
  while (take_line(rest, line)) {
    if (line.starts_with("sum ")) {
      const auto size = static_cast<size_t>(line.data() - text.data());
      if (!rest.empty() || line != fmt::format("sum {:016x}", fnv1a(text.substr(0, size))))
        return damaged("the sum that was written");
      for (const auto& [key, algorithm] : entries) put(key, algorithm);
      return {};
    }
    if (!parse_entry(line, entries.emplace_back())) return damaged("17 numbers per algorithm");
  }
  return damaged("a sum at the end");
}

Status AlgorithmCache::read(const std::string& dir) {
  std::ifstream file(path_in(dir, identity_), std::ios::binary);
  if (!file) return not_found("algorithms: nothing in {}", dir);
  std::ostringstream text;
  text << file.rdbuf();
  return add_text(text.str());
}

Status AlgorithmCache::write(const std::string& dir) const {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return internal_error("{}: {}", dir, error.message());
  const std::string path = path_in(dir, identity_);
  // The name contains the process id, so that two processes that start at once do not write to one
  // file.
  const std::string partial = fmt::format("{}.{}.partial", path, ::getpid());
  bool good = false;
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << to_text();
    file.flush();
    good = file.good();
  }
  if (good && std::rename(partial.c_str(), path.c_str()) == 0) return {};
  std::filesystem::remove(partial, error);
  return internal_error("{}: cannot be written", path);
}

int64_t fastest(std::span<const float> microseconds) {
  constexpr float kNoise = 0.97f;
  int64_t best = -1;
  for (size_t i = 0; i < microseconds.size(); ++i) {
    const float time = microseconds[i];
    if (time < 0.0f) continue;
    if (best < 0) {
      best = static_cast<int64_t>(i);
      continue;
    }
    const float limit = microseconds[static_cast<size_t>(best)] * (best == 0 ? kNoise : 1.0f);
    if (time < limit) best = static_cast<int64_t>(i);
  }
  return best;
}

}  // namespace quire::cuda
