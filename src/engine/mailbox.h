// Where other threads leave work for the engine thread. All of it is bounded: submissions by the
// queue limits, aborts by the streams that exist, calls by the threads that wait for them.
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
  std::vector<GroupId> aborts;  // apply after the submissions
  std::vector<std::function<void()>> calls;
  bool empty() const { return submissions.empty() && aborts.empty() && calls.empty(); }
  void clear();
};

class Mailbox {
 public:
  Mailbox(int32_t max_queued_requests, int64_t max_queued_tokens);

  // --- Any thread ---
  // kUnavailable when closed or draining; kResourceExhausted when the requests that wait here and
  // in the engine leave no room.
  Status submit(Submission submission);
  void abort(GroupId id);
  // False when closed: the call will not run.
  bool call(std::function<void()> function);
  void start_draining();
  // Waits until there is neither mail nor unfinished work; false after timeout_us.
  bool wait_idle(int64_t timeout_us);
  // Closes the mailbox: it takes no more mail, and the engine thread ends. `dead` says that the
  // thread cannot go on.
  void close(bool dead);
  bool dead() const;
  QueueState queue() const;  // mail included
  int64_t num_submitted() const;
  // Counts submissions that were refused because the queue was full, by the limit that was reached.
  struct Refusals {
    uint64_t by_requests = 0;
    uint64_t by_tokens = 0;
  };
  Refusals refusals() const;

  // --- Engine thread ---
  enum class Wait : uint8_t {
    kNone,      // there is work: only look
    kBriefly,   // work that could not run just now
    kForMail,   // nothing to do; returns without mail now and then
    kSettling,  // as kForMail, for some milliseconds only
    kPaused,    // as kForMail, though there may be work: nobody counts as idle
  };
  // Publishes the state of the engine, waits, and swaps the mail into `mail`. Returns false when
  // the mailbox is closed.
  bool take(Mail& mail, Wait wait, const QueueState& engine_queue);
  // As take() with kNone, but submissions stay here, where they count as queued.
  bool take_all_but_submissions(Mail& mail, const QueueState& engine_queue);

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_changed_;
  const int32_t max_queued_requests_;
  const int64_t max_queued_tokens_;
  Mail mail_;
  int32_t num_submitted_ = 0;  // requests in mail_, each choice counted
  int64_t num_submitted_tokens_ = 0;
  Refusals refusals_;
  QueueState engine_queue_;  // as last published, and what was taken since
  bool idle_ = true;
  bool draining_ = false;
  bool closed_ = false;
  bool dead_ = false;
};

}  // namespace quire
