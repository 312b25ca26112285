// Finds the cores that the process may use, the memory nodes that they belong to, and the share of
// them that control groups allow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

// Returns the first allowed CPU of each physical core that the process may use (by its affinity
// mask), ascending; empty if unknown. If the topology is hidden, every CPU counts as a core.
std::vector<int> one_cpu_per_core();

// Returns the number of physical cores that the process may use, at least 1.
int num_physical_cores();

// Returns the CPUs that the calling thread may use, ascending; empty if unknown.
std::vector<int> allowed_cpus();

// A memory node with its CPUs.
struct MemoryNode {
  int number = 0;
  std::vector<int> cpus;  // ascending, at least one
};

// Returns the nodes that have memory and some of `cpus`, ascending. CPUs that are offline are left
// out; those of a node without memory count to the nearest node that has some. Empty: the system
// gives no nodes. `system` is a folder like /sys/devices/system (Linux's
// Documentation/ABI/stable/sysfs-devices-node).
std::vector<MemoryNode> memory_nodes(const std::string& system, const std::vector<int>& cpus);

// Returns the CPUs of part `part` when `num_parts` parts share `nodes`: a run of whole nodes, or if
// there are more parts than nodes, one node, which neighbouring parts use too.
std::vector<int> cpus_of_part(const std::vector<MemoryNode>& nodes, int part, int num_parts);

// Returns the same for this machine: a part of `whole`, or if that is empty, of all CPUs that the
// calling thread may use. It is all of `whole` if there is one part or one node.
std::vector<int> cpus_of_part(const std::vector<int>& whole, int part, int num_parts);

// Returns the numbers of a list in Linux's format, "0-3,8"; items that are no numbers are left out.
std::vector<int> numbers_of_list(std::string_view list);

// Returns a useful number of compute threads: one per physical core that the process may use, but
// at most its CPU quota, rounded up (cgroup v2 cpu.max, v1 cpu.cfs_quota_us). At least 1.
int default_num_threads();

// Returns the number of CPUs of a quota, rounded up; 0 if the text sets no limit or is no quota.
// `cpu_max` is the text of cgroup v2's cpu.max: "150000 100000" or "max 100000", in microseconds.
int cpus_of_quota(std::string_view cpu_max);
// Does the same for the texts of cgroup v1's cpu.cfs_quota_us ("-1": no limit) and
// cpu.cfs_period_us.
int cpus_of_quota(std::string_view quota_us, std::string_view period_us);

// Returns the path of a process's control group from the text of /proc/self/cgroup: that of the v1
// hierarchy with `controller`, or that of v2 for an empty name. Empty if it is not there.
std::string_view cgroup_path(std::string_view proc_self_cgroup, std::string_view controller);

}  // namespace quire
