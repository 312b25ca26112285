#include "engine/mailbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace quire {
namespace {
constexpr std::chrono::milliseconds kSettlingWake{20};
// Wakes the engine so that the log shows that work has ended, and to notice a lost executor.
constexpr std::chrono::milliseconds kIdleWake{1000};
}  // namespace

void Mail::clear() {
  submissions.clear();
  aborts.clear();
  calls.clear();
}

Mailbox::Mailbox(int32_t max_queued_requests, int64_t max_queued_tokens)
    : max_queued_requests_(max_queued_requests), max_queued_tokens_(max_queued_tokens) {}

Status Mailbox::submit(Submission submission) {
  const int32_t n = submission.request.num_choices;
  const auto tokens = static_cast<int64_t>(submission.request.prompt_token_ids.size()) * n;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return unavailable("engine: stopped");
    if (draining_) return unavailable("engine: draining, no new requests are taken");
    const int64_t requests = int64_t{engine_queue_.num_requests} + num_submitted_;
    if (requests + n > max_queued_requests_) {
      ++refusals_.by_requests;
      return resource_exhausted("queue: expected at most {} waiting requests, got {}",
                                max_queued_requests_, requests + n);
    }
    const int64_t queued_tokens = engine_queue_.num_tokens + num_submitted_tokens_;
    if (queued_tokens > 0 && queued_tokens + tokens > max_queued_tokens_) {
      ++refusals_.by_tokens;
      return resource_exhausted("queue: expected at most {} waiting prompt tokens, got {}",
                                max_queued_tokens_, queued_tokens + tokens);
    }
    mail_.submissions.push_back(std::move(submission));
    num_submitted_ += n;
    num_submitted_tokens_ += tokens;
    idle_ = false;
  }
  wake_.notify_one();
  return {};
}

void Mailbox::abort(GroupId id) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    mail_.aborts.push_back(id);
  }
  wake_.notify_one();
}

bool Mailbox::call(std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    mail_.calls.push_back(std::move(function));
  }
  wake_.notify_one();
  return true;
}

void Mailbox::start_draining() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

bool Mailbox::wait_idle(int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  return idle_changed_.wait_for(lock, std::chrono::microseconds(std::max<int64_t>(timeout_us, 0)),
                                [this] { return idle_ || closed_; });
}

void Mailbox::close(bool dead) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dead_ = dead_ || dead;
  }
  wake_.notify_one();
  idle_changed_.notify_all();
}

bool Mailbox::dead() const {
  const std::lock_guard lock(mutex_);
  return dead_;
}

QueueState Mailbox::queue() const {
  const std::lock_guard lock(mutex_);
  QueueState state = engine_queue_;
  state.num_requests += num_submitted_;
  state.num_tokens += num_submitted_tokens_;
  return state;
}

int64_t Mailbox::num_submitted() const {
  const std::lock_guard lock(mutex_);
  return num_submitted_;
}

Mailbox::Refusals Mailbox::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

bool Mailbox::take_all_but_submissions(Mail& mail, const QueueState& engine_queue) {
  mail.clear();
  const std::lock_guard lock(mutex_);
  engine_queue_ = engine_queue;
  std::swap(mail.aborts, mail_.aborts);
  std::swap(mail.calls, mail_.calls);
  // The readers of these requests left before the engine took them.
  std::erase_if(mail_.submissions, [&](const Submission& submission) {
    if (std::find(mail.aborts.begin(), mail.aborts.end(), submission.id) == mail.aborts.end()) {
      return false;
    }
    const int32_t n = submission.request.num_choices;
    num_submitted_ -= n;
    num_submitted_tokens_ -= static_cast<int64_t>(submission.request.prompt_token_ids.size()) * n;
    return true;
  });
  return !closed_;
}

bool Mailbox::take(Mail& mail, Wait wait, const QueueState& engine_queue) {
  mail.clear();
  std::unique_lock lock(mutex_);
  engine_queue_ = engine_queue;
  const auto awake = [this] { return closed_ || !mail_.empty(); };
  if (wait == Wait::kForMail || wait == Wait::kSettling) {
    if (mail_.submissions.empty() && !idle_) {
      idle_ = true;
      idle_changed_.notify_all();
    }
    wake_.wait_for(lock, wait == Wait::kForMail ? kIdleWake : kSettlingWake, awake);
  } else if (wait == Wait::kPaused) {
    wake_.wait_for(lock, kIdleWake, awake);
  } else if (wait == Wait::kBriefly) {
    wake_.wait_for(lock, std::chrono::milliseconds(1), awake);
  }
  std::swap(mail, mail_);
  // Taken submissions count as queued until the engine publishes its queue, so that the engine
  // never has to refuse what submit() has accepted.
  engine_queue_.num_requests += num_submitted_;
  engine_queue_.num_tokens += num_submitted_tokens_;
  num_submitted_ = 0;
  num_submitted_tokens_ = 0;
  return !closed_;
}

}  // namespace quire
