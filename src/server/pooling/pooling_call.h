// One request of a pooling route on its way out: reads the engine's streams until each has given
// its row, then answers in one piece. Lives on its connection's strand; the engine only rings its
// bell.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/async_engine.h"
#include "server/http/http_types.h"
#include "server/pooling/pooling_request.h"

namespace quire::server {

class PoolingCall final : public OngoingCall, public std::enable_shared_from_this<PoolingCall> {
 public:
  // `headers` go on every answer; `ongoing` is held until the client has the last byte or has left.
  struct Options {
    HeaderList headers;
    std::shared_ptr<void> ongoing;           // shared with nobody: a guard whose release is noticed
    const std::vector<std::string>& labels;  // of the model, which outlives its calls
    HttpResponse (*refuse)(const ApiError& error);  // as the API prints errors
    // Told of deltas as they come; empty: nobody asks.
    std::function<void(const OutputDelta& delta)> on_delta = {};
  };
  // Submits to the engine and answers on `reply`. Strand only.
  static void run(std::shared_ptr<ReplyChannel> reply, PreparedPooling prepared,
                  AsyncEngine& engine, Options options);

  PoolingCall(std::shared_ptr<ReplyChannel> reply, PreparedPooling prepared, Options options);
  void on_writable() override {}
  void on_disconnect() override { end(); }

 private:
  ApiCheck submit(AsyncEngine& engine);
  void pump();
  bool pop_one(size_t index);
  void fail(const ApiError& error);
  void send(HttpResponse response);
  void end();

  std::shared_ptr<ReplyChannel> reply_;
  PreparedPooling prepared_;
  Options options_;
  std::vector<std::unique_ptr<OutputStream>> streams_;
  std::vector<PooledOutput> outputs_;
  size_t num_open_ = 0;
  bool ended_ = false;
};

}  // namespace quire::server
