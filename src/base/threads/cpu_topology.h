// These functions find the cores that the process may use, and the share of them that its control
// groups leave it.
#pragma once

#include <string_view>
#include <vector>

namespace quire {

// Returns the first allowed CPU of each physical core that the process may use (its affinity mask
// counts), ascending; empty when unknown. Where the topology is hidden every CPU counts as a core.
std::vector<int> one_cpu_per_core();

// Returns the number of physical cores that the process may use, at least 1.
int num_physical_cores();

// Returns how many compute threads make sense: one per physical core that the process may use, but
// no more than its CPU quota, rounded up (cgroup v2 cpu.max, v1 cpu.cfs_quota_us). At least 1.
int default_num_threads();

// Returns the CPUs that a quota is worth, rounded up; 0 when the text sets no limit or is no quota.
// `cpu_max` is the text of cgroup v2's cpu.max: "150000 100000" or "max 100000", in microseconds.
int cpus_of_quota(std::string_view cpu_max);
// Takes the texts of cgroup v1's cpu.cfs_quota_us ("-1": no limit) and cpu.cfs_period_us.
int cpus_of_quota(std::string_view quota_us, std::string_view period_us);

// Returns the path of a process's control group in the text of /proc/self/cgroup: that of the v1
// hierarchy that has `controller`, or that of v2 for an empty name. It is empty when it is not
// there.
std::string_view cgroup_path(std::string_view proc_self_cgroup, std::string_view controller);

}  // namespace quire
