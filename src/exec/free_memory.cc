#include "exec/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace quire {
namespace {

std::string read_text(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number in a one-line file; -1 when there is none ("max").
int64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = -1;
  if (!(file >> text)) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : -1;
}

int64_t smaller_limit(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

// Of `group` ("/a/b") and the groups that it lies in.
int64_t limit_up_from(std::string group, const std::string& mount, const char* file) {
  int64_t limit = -1;
  while (true) {
    limit = smaller_limit(limit, read_number(mount + group + "/" + file));
    if (group.empty()) return limit;
    group.resize(group.find_last_of('/') == group.npos ? 0 : group.find_last_of('/'));
  }
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

// What RLIMIT_AS leaves of the address space; -1 without such a limit.
int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  const int64_t used_pages = std::max<int64_t>(0, read_number("/proc/self/statm"));
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used_pages * getpagesize());
}

}  // namespace

int64_t control_group_limit(const std::string& proc_self_cgroup, const std::string& root) {
  int64_t limit = -1;
  std::istringstream lines(proc_self_cgroup);
  for (std::string line; std::getline(lines, line);) {  // id:controllers:/group
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      limit = smaller_limit(limit, limit_up_from(group, root, "memory.max"));
    } else if (("," + std::string(controllers) + ",").find(",memory,") != std::string::npos) {
      limit = smaller_limit(limit, limit_up_from(group, root + "/memory", "memory.limit_in_bytes"));
    }
  }
  // In a container the group's own name may mean nothing here: what is mounted is the group.
  limit = smaller_limit(limit, read_number(root + "/memory.max"));
  return smaller_limit(limit, read_number(root + "/memory/memory.limit_in_bytes"));
}

int64_t free_memory_bytes() {
  const int64_t total = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  int64_t free = smaller_limit(total, available_bytes());
  free = smaller_limit(free, control_group_limit(read_text("/proc/self/cgroup"), "/sys/fs/cgroup"));
  return smaller_limit(free, address_space_left());
}

}  // namespace quire
