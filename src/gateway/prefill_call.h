// A PrefillCall is the first leg of a client's request: a server computes the prompt. The second
// leg is a ProxyCall to a server that continues from it, or that computes the whole request if the
// first leg has failed. The client only notices the time that the first leg took. It is used on the
// gateway's thread only.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "gateway/backend_call.h"
#include "gateway/backend_turns.h"
#include "gateway/proxy_call.h"
#include "server/http/http_types.h"

namespace quire::gateway {

class PrefillCall final : public server::OngoingCall,
                          public BackendListener,
                          public std::enable_shared_from_this<PrefillCall> {
 public:
  // `body` is the body of the first leg (kv_legs.h). Each server that is asked has `timeout` to
  // answer.
  PrefillCall(ProxyContext& prefill, ProxyContext& decode, server::HttpRequest request,
              std::string body, std::chrono::milliseconds timeout,
              std::shared_ptr<server::ReplyChannel> reply, std::shared_ptr<RouteSpan> span);
  ~PrefillCall() override;
  void start();

  // OngoingCall
  void on_writable() override {}
  void on_disconnect() override;

  // BackendListener
  void on_head(server::HttpResponse head, std::optional<uint64_t> length) override;
  void on_body(std::string_view piece) override;
  void on_end() override;
  void on_failure(const std::string& why) override;
  bool wants_more() const override { return true; }

 private:
  void try_next();
  void decode(std::string_view answer);

  ProxyContext& prefill_;
  ProxyContext& decode_;
  server::HttpRequest request_;
  const std::string body_;
  const std::chrono::milliseconds timeout_;
  std::shared_ptr<server::ReplyChannel> reply_;  // null: passed on, or the client left
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::shared_ptr<RouteSpan> span_;  // shared with the second leg; null: nobody asks for one
  BackendTurns turns_;
  std::shared_ptr<BackendCall> call_;  // shared with its own running operations
  int status_ = 0;
  std::string answer_;
};

}  // namespace quire::gateway
