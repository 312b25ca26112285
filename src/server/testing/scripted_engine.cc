#include "server/testing/scripted_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace quire::server {

Result<std::vector<TokenId>> ByteCodec::encode(std::string_view text, bool add_special) const {
  std::vector<TokenId> ids;
  if (add_special && adds_bos_) ids.push_back(kBos);
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string ByteCodec::decode(std::span<const TokenId> ids, bool keep_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (id < 256 || keep_special) text += token_bytes(id);
  }
  return text;
}

std::string ByteCodec::token_bytes(TokenId id) const {
  return id == kBos ? "<s>" : std::string(1, static_cast<char>(id));
}

std::string ByteCodec::token_piece(TokenId id) const { return token_bytes(id); }

struct ScriptedEngine::State {
  std::vector<OutputDelta> script;
  size_t next = 0;
  std::function<void()> on_ready;
  std::mutex mutex;
  std::deque<OutputDelta> unread;  // guarded by mutex
  bool finished = false;           // guarded by mutex: nothing follows
  std::atomic<bool> gone{false};   // the reader has destroyed it
};

class ScriptedEngine::Stream final : public OutputStream {
 public:
  Stream(std::shared_ptr<State> state, ScriptedEngine& engine)
      : state_(std::move(state)), engine_(engine) {}
  ~Stream() override {
    const std::lock_guard lock(state_->mutex);
    if (!(state_->finished && state_->unread.empty())) engine_.num_aborted_.fetch_add(1);
    state_->gone.store(true);
  }
  std::optional<OutputDelta> try_pop() override {
    const std::lock_guard lock(state_->mutex);
    if (state_->unread.empty()) return std::nullopt;
    OutputDelta delta = std::move(state_->unread.front());
    state_->unread.pop_front();
    return delta;
  }
  std::optional<OutputDelta> pop() override { return try_pop(); }
  bool done() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->finished && state_->unread.empty();
  }
  void abort() override { state_->gone.store(true); }

 private:
  std::shared_ptr<State> state_;
  ScriptedEngine& engine_;
};

ScriptedEngine::ScriptedEngine(Options options) : options_(std::move(options)) {
  if (!options_.manual) thread_ = std::thread([this] { run(); });
}

ScriptedEngine::~ScriptedEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<OutputStream>> ScriptedEngine::submit(GenerationRequest request,
                                                             std::function<void()> on_ready) {
  auto state = std::make_shared<State>();
  state->script = options_.script(request);
  state->on_ready = std::move(on_ready);
  {
    const std::lock_guard lock(mutex_);
    if (!submit_error_.ok()) return submit_error_;
    if (open_.size() >= options_.max_open) return resource_exhausted("the queue is full");
    requests_.push_back(std::move(request));
    open_.push_back(state);
  }
  wake_.notify_all();
  return std::unique_ptr<OutputStream>(std::make_unique<Stream>(std::move(state), *this));
}

void ScriptedEngine::push() {
  std::vector<std::shared_ptr<State>> open;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const auto& s) { return s->gone.load(); });
    open = open_;
  }
  for (const auto& state : open) {
    {
      const std::lock_guard lock(state->mutex);
      if (state->next < state->script.size()) state->unread.push_back(state->script[state->next++]);
      if (options_.endless && state->next == state->script.size()) {
        state->unread.back().finish_reason.reset();
        state->next = 0;
      }
      state->finished = state->next == state->script.size();
      size_t seen = max_unread_seen_.load();
      while (seen < state->unread.size() &&
             !max_unread_seen_.compare_exchange_weak(seen, state->unread.size())) {
      }
      if (state->unread.size() > options_.max_unread) {
        OutputDelta last;
        last.finish_reason = FinishReason::kAbort;
        last.status = resource_exhausted("the reader was too slow");
        state->unread.back() = std::move(last);
        state->finished = true;
      }
    }
    state->on_ready();
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [](const auto& s) {
    const std::lock_guard inner(s->mutex);
    return s->finished || s->gone.load();
  });
}

void ScriptedEngine::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !open_.empty(); });
      if (stopping_) return;
    }
    push();
    if (options_.delay_us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(options_.delay_us));
  }
}

void ScriptedEngine::set_submit_error(Status status) {
  const std::lock_guard lock(mutex_);
  submit_error_ = std::move(status);
}

std::vector<GenerationRequest> ScriptedEngine::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

size_t ScriptedEngine::num_open() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(open_.begin(), open_.end(), [](const auto& s) { return !s->gone.load(); }));
}

EngineStats ScriptedEngine::stats() const {
  EngineStats stats;
  stats.uptime_s = 1.5;
  stats.num_requests_running = static_cast<int64_t>(num_open());
  stats.block_size = 4;
  stats.num_kv_blocks = 7;
  stats.kv_cache_usage = 0.25;
  stats.prompt_tokens = 1234567;
  stats.step_time = {.schedule_us = 5,
                     .execute_us = 420,
                     .executor = {.sample_us = 7, .num_members = 3, .late_members = 2}};
  stats.request_success_stop = 3;
  stats.time_to_first_token_seconds = Histogram(buckets::time_to_first_token_s());
  stats.time_to_first_token_seconds.observe(0.03);
  stats.request_prompt_tokens = Histogram(buckets::one_two_five(1'000'000));
  stats.request_prompt_tokens.observe(7);
  stats.recent_time_to_first_token.p50 = 0.25;
  return stats;
}

KvGridSnapshot ScriptedEngine::kv_grid() const {
  KvGridSnapshot grid;
  grid.block_size = 4;
  grid.owners = {"cmpl-a"};
  grid.blocks = {{KvCellState::kNull, -1, 0},  {KvCellState::kInUse, 0, 1},
                 {KvCellState::kInUse, 0, 1},  {KvCellState::kShared, 0, 2},
                 {KvCellState::kFree, -1, 0},  {KvCellState::kFree, -1, 0},
                 {KvCellState::kCached, -1, 0}};
  return grid;
}

OutputDelta text_delta(int32_t index, std::string text, const SamplingParams& params) {
  OutputDelta delta;
  delta.choice_index = index;
  for (const char c : text) {
    const TokenId id = static_cast<unsigned char>(c);
    delta.token_ids.push_back(id);
    if (!params.logprobs) continue;
    TokenLogprobs logprobs{id, -0.5f, 1, {}};
    for (int32_t k = 0; k < *params.logprobs; ++k) {
      logprobs.top.emplace_back((id + k) % 256, -0.5f - static_cast<float>(k));
    }
    delta.logprobs.push_back(std::move(logprobs));
  }
  delta.text = std::move(text);
  return delta;
}

namespace {

// Returns the number of bytes of the first character of `text`.
size_t character_bytes(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

}  // namespace

ScriptedEngine::Script say_in_pieces(std::string_view text, size_t piece) {
  return [text = std::string(text), piece](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas;
    for (size_t i = 0; i < text.size(); i += piece) {
      deltas.push_back(text_delta(0, text.substr(i, piece), request.params));
      for (size_t k = 0; k < deltas.back().token_ids.size(); ++k)
        deltas.back().text_ends_bytes.push_back(static_cast<int64_t>(i + k + 1));
    }
    deltas.back().finish_reason = FinishReason::kStop;
    return deltas;
  };
}

ScriptedEngine::Script say(std::string text, FinishReason reason) {
  return [text, reason](const GenerationRequest& request) {
    std::vector<OutputDelta> deltas;
    for (int32_t i = 0; i < request.num_choices; ++i) {
      const std::string mine = request.num_choices == 1 ? text : text + std::to_string(i);
      for (size_t k = 0, size = 0; k < mine.size(); k += size) {
        size = character_bytes(std::string_view(mine).substr(k));
        deltas.push_back(text_delta(i, mine.substr(k, size), request.params));
        // The text of a character comes with its last byte.
        deltas.back().text_ends_bytes.assign(size, static_cast<int64_t>(k));
        deltas.back().text_ends_bytes.back() = static_cast<int64_t>(k + size);
        if (i == 0 && k == 0 && request.params.prompt_logprobs) {
          for (size_t p = 1; p < request.prompt_token_ids.size(); ++p) {
            deltas.back().prompt_logprobs.push_back({request.prompt_token_ids[p], -1.0f, 2, {}});
          }
        }
      }
      deltas.back().finish_reason = reason;
    }
    return deltas;
  };
}

ServedModel scripted_model(std::shared_ptr<AsyncEngine> engine) {
  ServedModel model;
  model.names = {"tiny", "tiny-alias"};
  model.engine = std::move(engine);
  model.codec = std::make_shared<ByteCodec>();
  model.render_chat = [](const ChatRenderRequest& request) -> Result<std::string> {
    std::string text = request.template_source.value_or("");
    for (const auto& message : request.messages) {
      const auto& object = message.as_object();
      const std::string role(object.at("role").as_string());
      if (role == "refuse") return invalid_argument("roles must alternate");
      text += role + ": " + std::string(object.at("content").as_string()) + "\n";
    }
    if (!request.tools.empty()) text += "tools: " + std::to_string(request.tools.size()) + "\n";
    if (request.add_generation_prompt) text += "assistant:";
    return text;
  };
  model.created_s = 1'700'000'000;
  model.root = "tiny-root";
  return model;
}

}  // namespace quire::server
