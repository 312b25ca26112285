// A persistent team of compute threads. A region ends when its work is done, not when every thread
// has arrived: a thread that the system runs late finds nothing left to do.
//
//   team.run([&](int slot) { work_on(slice(slot, team.size())); });  // returns when each slot was
//   run once
//
// The caller and the workers are the team's members. A slot is the work and scratch memory of one
// member; each member first claims its own slot, then the slots of members that have not arrived.
// The index of a slot may decide which outputs it writes, but not how these are reduced (law L4).
// Workers spin between regions that follow each other closely and sleep when idle.
//
// Work that can be cut anywhere is dealt out before a region and taken in pieces inside it, so that
// no member waits long for one whose core is slower or busy:
//
//   team.deal(num_columns, 32, team.size());
//   team.run([&](int slot) {
//     for (WorkRange r = team.take(slot); r.begin < r.end; r = team.take(slot)) work_on(r);
//   });
//
// If other programs keep some cores busy, the team continues with fewer members and tries more of
// them again later (MemberControl; docs/decisions/011-late-members.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace quire {

// The half-open part [begin, end) of [0, count) that slot `thread` of `num_threads` owns. Parts are
// cut at multiples of `grain`.
struct WorkRange {
  int64_t begin;
  int64_t end;
};
constexpr WorkRange split_work(int64_t count, int64_t grain, int thread, int num_threads) {
  const int64_t chunks = (count + grain - 1) / grain;
  const int64_t first = chunks * thread / num_threads * grain;
  const int64_t last = chunks * (thread + 1) / num_threads * grain;
  return {first < count ? first : count, last < count ? last : count};
}

struct ThreadTeamOptions {
  int num_threads = 0;  // 0: default_num_threads() of base/threads/cpu_topology.h
  // Each worker stays on one core. Only useful if no other program uses these cores: the system
  // cannot move a pinned worker away from a busy core.
  bool pin = false;
  // The number of members follows the number of free cores.
  bool adapt = true;
  // False in tests that run as on a system that does not count how long threads wait for a core.
  bool counts_delays = true;
  // For tests: a worker calls it when it has seen a region, before it claims a slot.
  std::function<void(int member)> on_enter = nullptr;
};

struct ThreadTeamStats {
  int num_members = 1;       // members in the next region, including the caller
  int64_t late_members = 0;  // how often a member had waited for a core
};

class ThreadTeam {
 public:
  // Starts the threads. kInvalidArgument: num_threads < 0. kResourceExhausted: the system has no
  // more threads.
  static Result<ThreadTeam> create(const ThreadTeamOptions& options);
  ~ThreadTeam();
  ThreadTeam(ThreadTeam&&) noexcept;
  ThreadTeam& operator=(ThreadTeam&&) noexcept;

  int size() const;  // slots, and the most members

  // Any thread may call it.
  ThreadTeamStats stats() const;

  // Pins the calling thread to the team's first core (the workers have the others). Only for a
  // thread whose one purpose is to call run(): threads that it starts later inherit the pin, so the
  // team never does this by itself.
  void pin_caller();

  // Deals [0, count) out to the first `num_threads` slots, to each its part by split_work(). Not
  // inside a region; replaces what was dealt before. Precondition: count / grain < 2^32.
  void deal(int64_t count, int64_t grain, int num_threads);
  // Returns a piece of the rest of the slot's part, from its front, or of another slot's part, from
  // its back. Pieces become smaller towards the end, down to `grain`. The range is empty if nothing
  // is left.
  WorkRange take(int slot);
  // Whether some of the dealt work has not been taken.
  bool has_dealt_work() const;

  // Calls body(slot) once for each slot in [0, size()), on the members that arrive, several slots
  // on one member if need be. A slot must not wait for another, and body must not throw. Only one
  // caller at a time may run a region, and no body may start one. Allocates nothing.
  template <typename Body>
  void run(Body&& body) {
    run_erased([](void* context,
                  int slot) { (*static_cast<std::remove_reference_t<Body>*>(context))(slot); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  struct Impl;
  explicit ThreadTeam(std::unique_ptr<Impl> impl);
  void run_erased(void (*body)(void*, int), void* context);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
