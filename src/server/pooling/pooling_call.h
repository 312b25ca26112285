// A PoolingCall answers one request of a pooling route: it reads the engine's streams until each
// has returned its row, then answers in one piece. It lives on its connection's strand; the engine
// only rings its bell.
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
  // `headers` are added to every answer. `ongoing` is held until the client has the last byte or
  // has left.
  struct Options {
    HeaderList headers;
    std::shared_ptr<void> ongoing;           // not shared: its release marks the end of the call
    const std::vector<std::string>& labels;  // of the model; must outlive the call
    HttpResponse (*refuse)(const ApiError& error);  // prints errors in the API's form
    // Called with every delta; empty: nobody asks.
    std::function<void(const OutputDelta& delta)> on_delta = {};
  };
  // Submits the requests to the engine and answers on `reply`. It must be called on the strand.
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
