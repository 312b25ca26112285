// Mailbox: the work that other threads leave for the engine thread. All of it is bounded:
// submissions by the queue limits, aborts by the existing streams, calls by the threads that wait
// for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "engine/requests/submission.h"

namespace quire {

struct Mail {
  std::vector<Submission> submissions;
  std::vector<GroupId> aborts;  // applied after the submissions
  std::vector<std::function<void()>> calls;
  bool empty() const { return submissions.empty() && aborts.empty() && calls.empty(); }
  void clear();
};

class Mailbox {
 public:
  Mailbox(int32_t max_queued_requests, int64_t max_queued_tokens);

  // --- Any thread ---
  // Leaves a submission. kUnavailable when closed or draining; kResourceExhausted when the requests
  // that wait here and in the engine leave no room.
  Status submit(Submission submission);
  void abort(GroupId id);
  // Leaves a call. Returns false when closed: the call will not run.
  bool call(std::function<void()> function);
  void start_draining();
  // Waits until there is neither mail nor unfinished work; returns false after timeout_us.
  bool wait_idle(int64_t timeout_us);
  // Closes the mailbox: it takes no more mail, and the engine thread ends. `dead`: that thread
  // cannot go on.
  void close(bool dead);
  bool dead() const;
  QueueState queue() const;  // mail included
  int64_t num_submitted() const;
  // Submissions that were refused because the queue was full, by the limit that was reached.
  struct Refusals {
    uint64_t by_requests = 0;
    uint64_t by_tokens = 0;
  };
  Refusals refusals() const;

  // --- Engine thread ---
  enum class Wait : uint8_t {
    kNone,      // there is work: returns at once
    kBriefly,   // there is work that could not run just now
    kForMail,   // there is no work; returns without mail from time to time
    kSettling,  // like kForMail, for some milliseconds only
    kPaused,    // like kForMail, but there may be work, so wait_idle() goes on waiting
  };
  // Publishes the state of the engine, waits, and swaps the mail into `mail`. Returns false when
  // the mailbox is closed.
  bool take(Mail& mail, Wait wait, const QueueState& engine_queue);
  // Does what take() with kNone does, but leaves submissions here, where they count as queued.
  bool take_all_but_submissions(Mail& mail, const QueueState& engine_queue);

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_changed_;
  const int32_t max_queued_requests_;
  const int64_t max_queued_tokens_;
  Mail mail_;
  int32_t num_submitted_ = 0;  // requests in mail_, counting each choice
  int64_t num_submitted_tokens_ = 0;
  Refusals refusals_;
  QueueState engine_queue_;  // as last published, plus what was taken since
  bool idle_ = true;
  bool draining_ = false;
  bool closed_ = false;
  bool dead_ = false;
};

}  // namespace quire
