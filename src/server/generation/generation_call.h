// One generation request on its way out: reads the engine's streams, turns deltas into chunks, and
// lets the writer of its API make the answer of them. Lives on its connection's strand; the engine
// only rings its bell.
//
// Back pressure: while the client's write buffer is full nothing is popped, and the engine's own
// bounded stream decides what becomes of a reader that never comes back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/async_engine.h"
#include "server/answer/answer_writer.h"
#include "server/http/api_error.h"
#include "server/http/http_types.h"
#include "server/openai/chunk_builder.h"
#include "server/openai/prepare.h"

namespace quire::server {

class GenerationCall final : public OngoingCall,
                             public std::enable_shared_from_this<GenerationCall> {
 public:
  // `headers` go on every answer; `ongoing` is held until the client has the last byte or has left.
  struct Options {
    HeaderList headers;
    std::shared_ptr<void> ongoing;  // shared with nobody: a guard whose release is noticed
    const ServerLimits& limits;     // of the server, which outlives its calls
    std::shared_ptr<std::atomic<uint64_t>> held_bytes;  // of all calls' answers
    // Told of deltas as they come, also of those whose client has left; empty: nobody asks.
    std::function<void(const OutputDelta& delta)> on_delta = {};
  };
  // Submits to the engine and answers on `reply`. Strand only.
  static void run(std::shared_ptr<ReplyChannel> reply, PreparedCall prepared, AsyncEngine& engine,
                  Options options);

  GenerationCall(std::shared_ptr<ReplyChannel> reply, ResponseShape shape,
                 std::unique_ptr<AnswerWriter> writer, Options options);
  ~GenerationCall() override;
  void on_writable() override { pump(); }
  void on_disconnect() override;

 private:
  ApiCheck submit(std::vector<GenerationRequest> requests, AsyncEngine& engine);
  void begin();
  void pump();
  bool pop_one(size_t index);
  void emit(Chunks chunks);
  void charge_answer();
  void give_back();
  void flush();
  void finish();
  void fail(const ApiError& error);
  void end();

  std::shared_ptr<ReplyChannel> reply_;
  Options options_;
  ChunkBuilder builder_;
  std::unique_ptr<AnswerWriter> writer_;  // null when the call has ended
  const bool stream_;
  std::vector<std::unique_ptr<OutputStream>> streams_;
  std::vector<int32_t> unfinished_;  // choices per stream
  size_t num_open_ = 0;
  uint64_t charged_bytes_ = 0;  // to options_.held_bytes, until the client has the answer
  std::string events_;          // of this pump, written at its end; at last the whole answer
  bool began_ = false;          // the head of a stream is out
  bool ended_ = false;
};

}  // namespace quire::server
