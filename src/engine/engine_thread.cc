#include "engine/engine_thread.h"

#include <exception>
#include <stdexcept>

#include "base/log.h"

namespace quire {
namespace {

void fail(OutputChannel& channel, int32_t num_choices, const Status& why) {
  for (int32_t i = 0; i < num_choices; ++i) {
    OutputDelta delta;
    delta.choice_index = i;
    delta.finish_reason = FinishReason::kError;
    delta.status = why;
    channel.push(std::move(delta));
  }
  channel.notify();
}

}  // namespace

EngineThread::EngineThread(std::unique_ptr<Engine> engine)
    : engine_(std::move(engine)),
      mailbox_(std::make_shared<Mailbox>(engine_->options().scheduler.max_num_queued_reqs,
                                         engine_->options().scheduler.max_num_queued_tokens)),
      pauses_(*engine_),
      thread_([this] { run(); }) {}

EngineThread::~EngineThread() {
  mailbox_->close(false);
  thread_.join();
}

void EngineThread::handle(Mail& mail) {
  for (Submission& submission : mail.submissions) {
    const std::shared_ptr<OutputChannel> channel = submission.channel;
    const int32_t num_choices = submission.request.num_choices;
    try {
      const Status status = engine_->add(std::move(submission));
      if (!status.ok()) fail(*channel, num_choices, status);
      // Out of memory: the reader gets this error, then the thread ends.
    } catch (const std::exception& e) {
      fail(*channel, num_choices, internal_error("engine: {}", e.what()));
      throw;
    }
  }
  for (const GroupId id : mail.aborts) engine_->abort(id);
  for (const auto& call : mail.calls) call();
}

bool EngineThread::take(Mail& mail, Mailbox::Wait wait) {
  return pauses_.is_waiting() ? mailbox_->take_all_but_submissions(mail, engine_->queue_state())
                              : mailbox_->take(mail, wait, engine_->queue_state());
}

void EngineThread::loop(Mail& mail) {
  Mailbox::Wait wait = Mailbox::Wait::kForMail;
  // Whether a whole wait has passed without mail. Only then is there time for deferred work: a
  // request often follows right after the previous answer.
  bool is_calm = false;
  while (take(mail, wait)) {
    if (const Status health = engine_->executor().health(); !health.ok())
      throw std::runtime_error(health.message());
    is_calm = mail.empty() && (is_calm || wait == Mailbox::Wait::kSettling);
    handle(mail);
    if (pauses_.is_waiting() && !engine_->has_unfinished()) pauses_.enter();
    if (pauses_.paused()) {
      wait = Mailbox::Wait::kPaused;
      continue;
    }
    const bool progressed = engine_->step();
    if (!engine_->lost().ok()) throw std::runtime_error(engine_->lost().message());
    is_calm = is_calm && !progressed;
    wait = progressed                              ? Mailbox::Wait::kNone
           : engine_->has_unfinished()             ? Mailbox::Wait::kBriefly
           : !is_calm                              ? Mailbox::Wait::kSettling
           : engine_->executor().work_while_idle() ? Mailbox::Wait::kNone
                                                   : Mailbox::Wait::kForMail;
  }
}

// However the thread ends, no reader is left waiting.
void EngineThread::run() {
  Mail mail;
  try {
    loop(mail);
    const Status stopped = unavailable("engine: stopped");
    for (Submission& late : mail.submissions) {
      fail(*late.channel, late.request.num_choices, stopped);
    }
    mail.clear();  // drops calls that will not be answered
    engine_->end_all(FinishReason::kAbort, stopped);
  } catch (const std::exception& e) {
    log_critical("engine: the engine thread has died: {}", e.what());
    mailbox_->close(true);
    end_dead(mail, unavailable("engine: died: {}", e.what()));
  }
  pauses_.cancel_waiting();
}

void EngineThread::end_dead(Mail& mail, const Status& died) {
  Mail rest;
  mailbox_->take(rest, Mailbox::Wait::kNone, {});
  for (Mail* undelivered : {&mail, &rest}) {
    for (Submission& late : undelivered->submissions) {
      if (late.channel) fail(*late.channel, late.request.num_choices, died);
    }
    undelivered->clear();
  }
  engine_->end_all(FinishReason::kError, died);
  if (engine_->options().on_death) engine_->options().on_death();
}

}  // namespace quire
