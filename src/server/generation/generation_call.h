// A GenerationCall answers one generation request: it reads the engine's streams, turns deltas into
// chunks, and gives the chunks to the AnswerWriter of its API. It lives on its connection's strand;
// the engine only rings its bell.
//
// Back pressure: while the client's write buffer is full, no delta is read, and the engine's own
// bounded stream aborts a request whose reader does not come back.
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
  // `headers` are added to every answer. `ongoing` is held until the client has the last byte or
  // has left.
  struct Options {
    HeaderList headers;
    std::shared_ptr<void> ongoing;  // not shared: its release marks the end of the call
    const ServerLimits& limits;     // must outlive the call
    std::shared_ptr<std::atomic<uint64_t>> held_bytes;  // by the answers of all calls
    // Called with every delta, even when the client has left; empty: nobody asks.
    std::function<void(const OutputDelta& delta)> on_delta = {};
  };
  // Submits the request to the engine and answers on `reply`. It must be called on the strand.
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
  std::vector<int32_t> unfinished_;  // number of choices per stream
  size_t num_open_ = 0;
  uint64_t charged_bytes_ = 0;  // added to options_.held_bytes until the client has the answer
  std::string events_;          // text of this pump(), written at its end; finally the whole answer
  bool began_ = false;          // the head of a stream has been sent
  bool ended_ = false;
};

}  // namespace quire::server
