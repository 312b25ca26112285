// Pauses: decides when an engine stops between two steps, and then drops the prefix cache or gives
// the memory of KV back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/async_engine.h"
#include "engine/engine.h"

namespace quire {

// Tells the caller once how a pause went, even if the engine stops before the pause.
class PauseReply {
 public:
  explicit PauseReply(AsyncEngine::OnPaused on_paused) : on_paused_(std::move(on_paused)) {}
  PauseReply(const PauseReply&) = delete;
  PauseReply& operator=(const PauseReply&) = delete;
  ~PauseReply() { answer(unavailable("engine: stopped")); }
  void answer(const Status& status);

 private:
  AsyncEngine::OnPaused on_paused_;
};

struct PauseRequest {
  PauseMode mode;
  bool clear_cache;
  int32_t sleep_level;                // 0: stay awake
  std::shared_ptr<PauseReply> reply;  // shared with the call that delivers it
};

class Pauses {
 public:
  explicit Pauses(Engine& engine) : engine_(engine) {}

  // --- Any thread ---
  bool paused() const { return paused_.load(); }
  int32_t sleep_level() const { return sleep_level_.load(); }
  void wake_up() { sleep_level_ = 0; }

  // --- Engine thread ---
  void begin(PauseRequest request);
  // Whether a pause waits until the running requests have ended.
  bool is_waiting() const { return !waiting_.empty(); }
  // Stops the engine. Nothing runs on the executor when this returns.
  void enter();
  void resume() { paused_ = false; }
  // Drops the pauses that wait; their callers learn that the engine has stopped.
  void cancel_waiting() { waiting_.clear(); }

 private:
  Engine& engine_;
  std::atomic<bool> paused_{false};  // written by the engine thread
  std::atomic<int32_t> sleep_level_{0};
  std::vector<PauseRequest> waiting_;
};

}  // namespace quire
