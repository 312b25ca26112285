// ScriptedEngine is a double of the engine for tests: every request gets the deltas of a script,
// from a thread or by hand, and the requests are recorded.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/openai/served_model.h"

namespace quire::server {

// ByteCodec makes each byte a token with ids 0–255. It has no merges and only one special token,
// 256 (printed as <s>), which encode() can prepend.
class ByteCodec final : public TextCodec {
 public:
  static constexpr TokenId kBos = 256;
  explicit ByteCodec(bool adds_bos = false) : adds_bos_(adds_bos) {}
  Result<std::vector<TokenId>> encode(std::string_view text, bool add_special) const override;
  std::string decode(std::span<const TokenId> ids, bool keep_special) const override;
  std::string token_bytes(TokenId id) const override;
  std::string token_piece(TokenId id) const override;
  std::vector<MarkToken> mark_tokens() const override { return {{kBos, "<s>", true}}; }
  int32_t vocab_size() const override { return 257; }

 private:
  bool adds_bos_;
};

class ScriptedEngine final : public AsyncEngine {
 public:
  using Script = std::function<std::vector<OutputDelta>(const GenerationRequest&)>;

  // With `delay_us`, a thread pushes one delta of every open stream, then waits that long; deltas
  // start again from the first when `endless` is set. With `manual` there is no thread, and push()
  // does it.
  struct Options {
    Script script;
    int64_t delay_us = 0;
    bool manual = false;
    bool endless = false;
    bool pauses_at_once = true;
    size_t max_open = 1 << 20;    // more open streams: kResourceExhausted
    size_t max_unread = 1 << 20;  // more unread deltas: the stream ends with an error
    int32_t max_model_len = 1024;
  };
  explicit ScriptedEngine(Options options);
  ~ScriptedEngine() override;

  Result<std::unique_ptr<OutputStream>> submit(GenerationRequest request,
                                               std::function<void()> on_ready) override;
  int64_t retry_after_s() const override { return 7; }
  ExecutorInfo model_info() const override { return {257, options_.max_model_len}; }
  const Clock& clock() const override { return clock_; }
  EngineStats stats() const override;
  KvGridSnapshot kv_grid() const override;
  PrefixProbe probe_prefix(const std::vector<TokenId>& ids, const CacheKeys&) const override {
    return {static_cast<int32_t>(ids.size() / 4 * 4), static_cast<int32_t>(ids.size() / 4)};
  }
  Status reset_prefix_cache() override { return {}; }
  void pause(PauseMode mode, bool, OnPaused on_paused) override {
    pause_mode_ = mode;
    const bool waits = mode == PauseMode::kWait && !options_.pauses_at_once;
    if (waits) waits_to_pause_ = on_paused;
    paused_ = true;
    if (!waits) on_paused({});
  }
  // Ends a pause that waits because pauses_at_once is false.
  void end_pause() { std::exchange(waits_to_pause_, nullptr)({}); }
  Status resume() override {
    paused_ = false;
    return {};
  }
  bool paused() const override { return paused_; }
  void sleep(int32_t level, PauseMode mode, OnPaused on_asleep) override {
    sleep_level_ = level;
    pause(mode, true, std::move(on_asleep));
  }
  Status wake_up() override {
    sleep_level_ = 0;
    return resume();
  }
  int32_t sleep_level() const override { return sleep_level_; }
  Result<int64_t> abort_requests(std::span<const std::string> ids) override {
    return static_cast<int64_t>(ids.size());
  }
  PauseMode pause_mode() const { return pause_mode_; }
  bool healthy() const override { return healthy_.load(); }
  void drain(int64_t) override {}

  // Pushes the next delta of every open stream, in manual mode.
  void push();
  bool has_waiting() const override { return has_waiting_.load(); }
  void set_has_waiting(bool has_waiting) { has_waiting_.store(has_waiting); }
  void set_healthy(bool healthy) { healthy_.store(healthy); }
  void set_submit_error(Status status);
  std::vector<GenerationRequest> requests() const;
  size_t num_open() const;  // streams that are neither finished nor destroyed
  size_t num_aborted() const { return num_aborted_.load(); }
  size_t max_unread_seen() const { return max_unread_seen_.load(); }

 private:
  struct State;
  class Stream;
  void run();

  const Options options_;
  SteadyClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<State>> open_;  // guarded by mutex_
  std::vector<GenerationRequest> requests_;   // guarded by mutex_
  Status submit_error_;                       // guarded by mutex_
  bool stopping_ = false;                     // guarded by mutex_
  std::atomic<bool> healthy_{true};
  std::atomic<bool> paused_{false};
  OnPaused waits_to_pause_;
  std::atomic<PauseMode> pause_mode_{PauseMode::kKeep};
  std::atomic<int32_t> sleep_level_{0};
  std::atomic<bool> has_waiting_{false};
  std::atomic<size_t> num_aborted_{0};
  std::atomic<size_t> max_unread_seen_{0};
  std::thread thread_;
};

// Returns a delta of choice `index` with one token per byte of `text`, and log-probabilities when
// `params` ask for them.
OutputDelta text_delta(int32_t index, std::string text, const SamplingParams& params = {});
// Returns a script that says `text` as choice 0 in deltas of `piece` bytes each, with the end of
// each token's text.
ScriptedEngine::Script say_in_pieces(std::string_view text, size_t piece);
// Returns a script that says `text` in deltas of one character for every choice, and ends with
// `reason`. A choice's text is `text` and its index.
ScriptedEngine::Script say(std::string text, FinishReason reason = FinishReason::kStop);

// Returns a model over `engine` with a ByteCodec and a renderer that writes "role: content
// " lines.
ServedModel scripted_model(std::shared_ptr<AsyncEngine> engine);

}  // namespace quire::server
