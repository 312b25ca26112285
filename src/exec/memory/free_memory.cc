#include "exec/memory/free_memory.h"

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

std::string read_proc_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the number in a one-line file; -1 if there is none ("max").
int64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = -1;
  if (!(file >> text)) return -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : -1;
}

int64_t smaller_limit(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

// Returns the number after the word `key` at the start of a line; -1 if there is no such line.
int64_t read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  int64_t value = 0;
  for (std::string rest; file >> word >> value; std::getline(file, rest)) {
    if (word == key) return value;
  }
  return -1;
}

// The names of a control group's memory files, and of the fields of its memory.stat.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* inactive_cache;
  const char* active_cache;
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "total_inactive_file", "total_active_file"};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "inactive_file", "active_file"};

// The kernel drops the page cache of files before a group runs out of memory (as in MemAvailable),
// but not shared memory, which counts as cache, too.
int64_t room_in(const std::string& folder, const GroupFiles& files) {
  const int64_t limit = read_number(folder + files.limit);
  if (limit < 0) return -1;
  const std::string stat = folder + "/memory.stat";
  const int64_t cache = std::max<int64_t>(0, read_field(stat, files.inactive_cache)) +
                        std::max<int64_t>(0, read_field(stat, files.active_cache));
  const int64_t used = std::max<int64_t>(0, read_number(folder + files.used) - cache);
  return std::max<int64_t>(0, limit - used);
}

// Returns the least room in `group` ("/a/b") and in its parents.
int64_t room_up_from(std::string group, const std::string& mount, const GroupFiles& files) {
  int64_t room = -1;
  while (true) {
    room = smaller_limit(room, room_in(mount + group, files));
    if (group.empty()) return room;
    group.resize(group.find_last_of('/') == group.npos ? 0 : group.find_last_of('/'));
  }
}

// Returns MemAvailable of /proc/meminfo in bytes; -1 if it is missing.
int64_t available_bytes() {
  const int64_t kib = read_field("/proc/meminfo", "MemAvailable:");
  return kib < 0 ? -1 : kib * 1024;
}

// Returns how much of the address space RLIMIT_AS leaves; -1 without such a limit.
int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  const int64_t used_pages = std::max<int64_t>(0, read_number("/proc/self/statm"));
  return std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - used_pages * getpagesize());
}

}  // namespace

int64_t control_group_room(const std::string& proc_self_cgroup, const std::string& root) {
  int64_t room = -1;
  std::istringstream lines(proc_self_cgroup);
  for (std::string line; std::getline(lines, line);) {  // id:controllers:/group
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      room = smaller_limit(room, room_up_from(group, root, kVersion2));
    } else if (("," + std::string(controllers) + ",").find(",memory,") != std::string::npos) {
      room = smaller_limit(room, room_up_from(group, root + "/memory", kVersion1));
    }
  }
  // In a container, the name in /proc/self/cgroup may not exist below `root`; the mounted folder is
  // then the group itself.
  room = smaller_limit(room, room_in(root, kVersion2));
  return smaller_limit(room, room_in(root + "/memory", kVersion1));
}

int64_t free_memory_bytes() {
  const int64_t total = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  int64_t free = smaller_limit(total, available_bytes());
  free = smaller_limit(free,
                       control_group_room(read_proc_file("/proc/self/cgroup"), "/sys/fs/cgroup"));
  return smaller_limit(free, address_space_left());
}

}  // namespace quire
