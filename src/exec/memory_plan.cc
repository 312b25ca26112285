#include "exec/memory_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace quire {
namespace {

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} KiB", value / 1024);
}

// The number in a one-line file; -1 when there is none ("max").
int64_t read_number(const char* path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = -1;
  if (!(file >> text)) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : -1;
}

// MemAvailable of /proc/meminfo in bytes; -1 when it is not there.
int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string unit; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return -1;
}

}  // namespace

int64_t free_memory_bytes() {
  int64_t total = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t limit = read_number(path);
    if (limit > 0 && limit < total) total = limit;
  }
  const int64_t available = available_bytes();
  return available > 0 ? std::min(total, available) : total;
}

std::string MemoryPlan::table() const {
  std::string text;
  const auto row = [&](std::string_view name, int64_t bytes, const std::string& note = {}) {
    text +=
        fmt::format("  {:<22}{:>12}{}{}\n", name, size_text(bytes), note.empty() ? "" : "  ", note);
  };
  row("weights", weights);
  if (mapped_tables > 0) row("embeddings (mapped)", mapped_tables, "stay in the checkpoint file");
  row("activations", activations);
  row("linear workspace", linear_workspace);
  row("attention workspace", attention_workspace);
  row("logits", logits);
  if (graphs > 0) row("graphs", graphs);
  row("batch", batch);
  const auto tokens =
      kv_bytes_per_token > 0.0 ? static_cast<double>(kv_cache) / kv_bytes_per_token : 0.0;
  row("KV cache", kv_cache,
      fmt::format("{} blocks of {}, about {:.0f} tokens", num_blocks(), size_text(block_bytes),
                  tokens));
  row("total", weights + workspace() + kv_cache,
      budget > 0
          ? fmt::format("of {} allowed, {} are free", size_text(budget), size_text(free_memory))
          : fmt::format("of {} that are free", size_text(free_memory)));
  return text;
}

}  // namespace quire
