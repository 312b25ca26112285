// Roster holds the scheduler's requests, each of which waits, waits for a fork's leader, runs or
// has finished, and the resources that they hold meanwhile: places, adapters, media, KV. It moves
// entries from one state to the next and keeps the counts right; other parts decide which entry
// moves when. One thread may use it.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "draft/drafter.h"
#include "kv/kv_manager.h"
#include "sched/adapters/adapter_uses.h"
#include "sched/media/media_gate.h"
#include "sched/requests/entry.h"
#include "sched/requests/fork_waiters.h"
#include "sched/requests/queue_limits.h"
#include "sched/requests/waiting_queue.h"
#include "sched/scheduler_config.h"

namespace quire {

class Roster {
 public:
  // `config` and `kv` outlive the roster; so does `drafter`, which may be null.
  Roster(const SchedulerConfig& config, KvManager& kv, Drafter* drafter);

  // Makes a record for a new request, of which num_queued_tokens count against the limits of the
  // queue. The record is in no queue yet.
  Entry& add(Request request, int64_t num_queued_tokens);
  // Makes the entry a running one. Precondition: it was waiting and has left its queue.
  void start(Entry& entry);
  // Makes a running entry wait again and frees all that it held. The entry is not put in a queue,
  // and the caller removes it from running() with compact_running().
  void stop(Entry& entry);
  // Makes the entry a finished one and frees what it held; its forks no longer wait for it. The
  // caller removes it from its queue, or from running() as after stop().
  void retire(Entry& entry, RequestStatus status);
  // Makes the requests that wait for this leader wait for a place instead.
  void release_forks(RequestId leader) {
    if (forks.has_forks()) queue_forks(leader);
  }
  void compact_running();
  // Forgets the finished requests, so that their records can be used again.
  void recycle_finished();

  // Opens the entry's sequence unless it is open.
  void open_sequence(Entry& entry);
  // Tells the KV manager what of the request to store in files. `whole`: its last block too, even
  // if tokens fill only a part of it. Requests with media are not stored, since the tokens of media
  // do not tell the content.
  void store_in_files(const Entry& entry, bool whole) {
    if (kv_.files() != nullptr && entry.request.media.empty()) store_text_in_files(entry, whole);
  }
  // Returns the request whose deadline has passed first, or nullopt.
  std::optional<RequestId> find_expired(int64_t now_us) const;

  // Returns the entry of that request, also of one that has finished since the last step, or null.
  Entry* find(RequestId id) const {
    const auto it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : it->second;
  }
  // Returns every record, including unused ones.
  const std::deque<Entry>& entries() const { return entries_; }
  const std::vector<Entry*>& running() const { return running_; }  // in order of admission
  size_t num_finished() const { return finished_.size(); }         // since the last step
  int32_t num_running() const { return static_cast<int32_t>(running_.size()); }
  int32_t num_waiting() const { return waiting.size() + forks.size(); }
  int32_t num_hard_running() const { return num_hard_running_; }
  int32_t num_short_running() const { return num_short_running_; }

  WaitingQueue waiting;
  ForkWaiters forks;
  QueueLimits limits;
  MediaGate media;
  AdapterUses adapters;
  std::vector<RequestId> dropped;  // ids that the executor must be told to forget

 private:
  void queue_forks(RequestId leader);
  void store_text_in_files(const Entry& entry, bool whole);

  const SchedulerConfig& config_;
  KvManager& kv_;
  Drafter* const drafter_;

  // Records have stable addresses. The record of a finished request is used again after the next
  // schedule().
  std::deque<Entry> entries_;
  std::vector<Entry*> unused_entries_;
  std::vector<Entry*> finished_;
  std::unordered_map<RequestId, Entry*> by_id_;
  std::set<std::pair<int64_t, RequestId>> deadlines_;
  std::vector<Entry*> running_;
  int32_t num_hard_running_ = 0;
  int32_t num_short_running_ = 0;
};

// Returns the most positions that a request can ever hold: its prompt and its longest output,
// without the last token, which is never computed.
int32_t max_kv_tokens(const SchedulerConfig& config, const Request& request);

}  // namespace quire
