#include "base/threads/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace quire {
namespace {

// Returns one line of /sys/devices/system/cpu/cpuN/topology/<name> as a number, or -1 if it is not
// there.
int topology_number(int cpu, const char* name) {
  char path[128];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return -1;
  int value = -1;
  if (std::fscanf(file, "%d", &value) != 1) value = -1;
  std::fclose(file);
  return value;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the number at the beginning of a text.
std::optional<int64_t> leading_number(std::string_view text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// Returns the least of the quotas that `quota_in` finds in a group's folder and those above it; 0
// if there is none. In a container the path that the process sees may not exist below the mount:
// then only the mount's own folder counts.
template <typename QuotaIn>
int least_quota(const std::string& mount, std::string_view group, QuotaIn&& quota_in) {
  int least = 0;
  while (true) {
    const int cpus = quota_in(mount + std::string(group) + "/");
    if (cpus > 0) least = least > 0 ? std::min(least, cpus) : cpus;
    const size_t parent_end = group.rfind('/');
    if (parent_end == std::string_view::npos) return least;
    group = group.substr(0, parent_end);
  }
}

// Returns how many CPUs the process's control groups allow; 0 if there is no limit.
int cpu_quota() {
  const std::string groups = text_of("/proc/self/cgroup");
  const int of_v2 =
      least_quota("/sys/fs/cgroup", cgroup_path(groups, ""),
                  [](const std::string& dir) { return cpus_of_quota(text_of(dir + "cpu.max")); });
  const int of_v1 =
      least_quota("/sys/fs/cgroup/cpu", cgroup_path(groups, "cpu"), [](const std::string& dir) {
        return cpus_of_quota(text_of(dir + "cpu.cfs_quota_us"), text_of(dir + "cpu.cfs_period_us"));
      });
  return of_v1 > 0 && of_v2 > 0 ? std::min(of_v1, of_v2) : std::max(of_v1, of_v2);
}

// The nodes of a machine as the system lists them, by index in the list of those online.
struct NodeFiles {
  std::string folder;
  std::vector<int> numbers;
  std::vector<bool> has_memory;

  explicit NodeFiles(const std::string& system)
      : folder(system + "/node/"), numbers(numbers_of_list(text_of(folder + "online"))) {
    const std::vector<int> with = numbers_of_list(text_of(folder + "has_memory"));
    for (const int node : numbers)
      has_memory.push_back(with.empty() || std::ranges::binary_search(with, node));
  }

  std::string text(size_t place, const char* name) const {
    return text_of(folder + "node" + std::to_string(numbers[place]) + "/" + name);
  }
  // Returns the index of the nearest node with memory, which is the node itself if it has some.
  size_t nearest_memory(size_t place) const {
    if (has_memory[place]) return place;
    std::istringstream distances(text(place, "distance"));
    size_t nearest = place;
    int least = std::numeric_limits<int>::max();
    int distance = 0;
    for (size_t other = 0; other < numbers.size() && distances >> distance; ++other) {
      if (!has_memory[other] || distance >= least) continue;
      nearest = other;
      least = distance;
    }
    return nearest;
  }
};

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<MemoryNode> memory_nodes(const std::string& system, const std::vector<int>& cpus) {
  const NodeFiles files(system);
  const std::vector<int> online = numbers_of_list(text_of(system + "/cpu/online"));
  std::vector<std::vector<int>> beside(files.numbers.size());
  for (size_t place = 0; place < beside.size(); ++place) {
    std::vector<int>& to = beside[files.nearest_memory(place)];
    for (const int cpu : numbers_of_list(files.text(place, "cpulist"))) {
      const bool is_online = online.empty() || std::ranges::binary_search(online, cpu);
      if (is_online && std::ranges::find(cpus, cpu) != cpus.end()) to.push_back(cpu);
    }
  }
  std::vector<MemoryNode> nodes;
  for (size_t place = 0; place < beside.size(); ++place) {
    if (beside[place].empty()) continue;
    std::ranges::sort(beside[place]);
    nodes.push_back({files.numbers[place], std::move(beside[place])});
  }
  return nodes;
}

std::vector<int> cpus_of_part(const std::vector<MemoryNode>& nodes, int part, int num_parts) {
  const int num_nodes = static_cast<int>(nodes.size());
  const int first = part * num_nodes / num_parts;
  const int end = std::max(first + 1, (part + 1) * num_nodes / num_parts);
  std::vector<int> cpus;
  for (int node = first; node < std::min(end, num_nodes); ++node) {
    const std::vector<int>& more = nodes[static_cast<size_t>(node)].cpus;
    cpus.insert(cpus.end(), more.begin(), more.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::vector<int> cpus_of_part(const std::vector<int>& whole, int part, int num_parts) {
  if (num_parts == 1) return whole;
  const std::vector<MemoryNode> nodes =
      memory_nodes("/sys/devices/system", whole.empty() ? allowed_cpus() : whole);
  return nodes.size() < 2 ? whole : cpus_of_part(nodes, part, num_parts);
}

std::vector<int> numbers_of_list(std::string_view list) {
  constexpr int kMostNumbers = 1 << 16;
  std::vector<int> numbers;
  while (!list.empty()) {
    const std::string_view range = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), range.size() + 1));
    const size_t dash = range.find('-');
    const std::optional<int64_t> first = leading_number(range);
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : leading_number(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMostNumbers) continue;
    for (int64_t number = *first; number <= *last; ++number)
      numbers.push_back(static_cast<int>(number));
  }
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<int> one_cpu_per_core() {
  std::vector<int> cpus;
  std::vector<std::pair<int, int>> seen;  // (package, core)
  for (const int cpu : allowed_cpus()) {
    const std::pair<int, int> core{topology_number(cpu, "physical_package_id"),
                                   topology_number(cpu, "core_id")};
    const bool known = core.second >= 0;
    if (known && std::find(seen.begin(), seen.end(), core) != seen.end()) continue;
    if (known) seen.push_back(core);
    cpus.push_back(cpu);
  }
  return cpus;
}

int num_physical_cores() { return std::max(1, static_cast<int>(one_cpu_per_core().size())); }

int default_num_threads() {
  const int quota = cpu_quota();
  return quota > 0 ? std::min(quota, num_physical_cores()) : num_physical_cores();
}

int cpus_of_quota(std::string_view quota_us, std::string_view period_us) {
  const auto quota = leading_number(quota_us);
  const auto period = leading_number(period_us);
  if (!quota || !period || *quota <= 0 || *period <= 0) return 0;
  constexpr int64_t kMostCpus = 1 << 20;
  return static_cast<int>(std::min(*quota / *period + (*quota % *period != 0), kMostCpus));
}

int cpus_of_quota(std::string_view cpu_max) {
  const size_t space = cpu_max.find(' ');
  if (space == std::string_view::npos) return 0;
  return cpus_of_quota(cpu_max.substr(0, space), cpu_max.substr(space + 1));
}

std::string_view cgroup_path(std::string_view text, std::string_view controller) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    // A line reads hierarchy:controllers:path.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    std::string_view names = line.substr(first + 1, second - first - 1);
    if (controller.empty() != names.empty()) continue;
    bool has_controller = names.empty();
    while (!names.empty()) {
      const std::string_view name = names.substr(0, names.find(','));
      has_controller = has_controller || name == controller;
      names.remove_prefix(std::min(names.size(), name.size() + 1));
    }
    if (!has_controller) continue;
    const std::string_view path = line.substr(second + 1);
    return path == "/" ? std::string_view() : path;
  }
  return {};
}

}  // namespace quire
