// EngineThread runs an Engine on a thread of its own, which gets its work from a mailbox.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/pauses.h"

namespace quire {

class EngineThread {
 public:
  explicit EngineThread(std::unique_ptr<Engine> engine);
  // Ends all requests and joins the thread.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Only calls marked "any thread" are allowed through this reference.
  Engine& engine() const { return *engine_; }
  const Pauses& pauses() const { return pauses_; }
  Pauses& pauses() { return pauses_; }
  // The mailbox is shared with streams, which may outlive the thread.
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  // Runs `function` on the engine thread between two steps, waits, and returns its result; returns
  // `otherwise` if the thread has ended.
  template <typename F, typename T = std::invoke_result_t<F, Engine&>>
  T ask(F function, std::type_identity_t<T> otherwise) const;

 private:
  void run();
  void loop(Mail& mail);
  void handle(Mail& mail);
  bool take(Mail& mail, Mailbox::Wait wait);
  void end_dead(Mail& mail, const Status& died);

  const std::unique_ptr<Engine> engine_;
  const std::shared_ptr<Mailbox> mailbox_;
  Pauses pauses_;
  std::thread thread_;
};

template <typename F, typename T>
T EngineThread::ask(F function, std::type_identity_t<T> otherwise) const {
  auto answer = std::make_shared<std::promise<T>>();  // std::function must be copyable
  std::future<T> future = answer->get_future();
  Engine& engine = *engine_;
  if (!mailbox_->call([answer, &engine, &function] { answer->set_value(function(engine)); })) {
    return otherwise;
  }
  answer.reset();
  try {
    return future.get();
  } catch (const std::future_error&) {  // the thread ended before it ran the call
    return otherwise;
  }
}

}  // namespace quire
