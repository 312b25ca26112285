// One request of a client on its way through the gateway: to a backend, to the next one where that
// fails before the client has seen a byte, and the answer back as it comes. It is used on the
// gateway's thread alone.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gateway/backend_call.h"
#include "gateway/backend_set.h"
#include "gateway/backend_turns.h"
#include "gateway/gateway_counts.h"
#include "gateway/route_span.h"
#include "server/http/http_types.h"

namespace quire::gateway {

// What all calls of a gateway share; it outlives them.
struct ProxyContext {
  boost::asio::any_io_executor executor;
  BackendSet& backends;
  GatewayCounts& counts;
  std::span<char> scratch;
  std::chrono::milliseconds connect_timeout;
  std::function<void(const std::shared_ptr<Backend>&)> on_failed;  // before others are tried
};

class ProxyCall final : public server::OngoingCall,
                        public BackendListener,
                        public std::enable_shared_from_this<ProxyCall> {
 public:
  // `start` is when the request came. A null `span` means that nobody wants one.
  ProxyCall(ProxyContext& context, server::HttpRequest request,
            std::shared_ptr<server::ReplyChannel> reply,
            std::chrono::steady_clock::time_point start, std::shared_ptr<RouteSpan> span);
  ~ProxyCall() override;
  void start();

  // OngoingCall
  void on_writable() override;
  void on_disconnect() override;

  // BackendListener
  void on_head(server::HttpResponse head, std::optional<uint64_t> length) override;
  void on_body(std::string_view piece) override;
  void on_end() override;
  void on_failure(const std::string& why) override;
  bool wants_more() const override { return reply_ == nullptr || reply_->wants_more(); }

 private:
  void try_next();
  void begin_stream();
  void answer_whole();
  void answer_without_backend();
  void end_cut_stream(const std::string& why);

  ProxyContext& context_;
  const server::HttpRequest request_;
  std::shared_ptr<server::ReplyChannel> reply_;  // the connection's; null: answered, or it is gone
  const std::chrono::steady_clock::time_point start_;
  const std::shared_ptr<RouteSpan> span_;  // shared with the first leg
  BackendTurns turns_;
  std::shared_ptr<BackendCall> call_;  // shared with its own work under way
  server::HttpResponse head_;          // with the body, until it is passed on
  bool is_collected_ = false;          // the answer is short, or will not be the client's
  bool is_streaming_ = false;          // the client has seen the head
  std::string last_failure_;
};

}  // namespace quire::gateway
