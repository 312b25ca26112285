// A ProxyCall is one request of a client. It goes to a backend, and to the next one if that fails
// before the client has seen a byte; the answer is passed on as it comes. It is used on the
// gateway's thread only.
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

// All calls of a pool share this context, which must outlive them.
struct ProxyContext {
  boost::asio::any_io_executor executor;
  BackendSet& backends;
  GatewayCounts& counts;
  std::span<char> scratch;
  std::chrono::milliseconds connect_timeout;
  std::function<void(const std::shared_ptr<Backend>&)> on_failed;  // before the next is tried
};

class ProxyCall final : public server::OngoingCall,
                        public BackendListener,
                        public std::enable_shared_from_this<ProxyCall> {
 public:
  // `start` is the time at which the request came. `span` is null when nobody asks for one.
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
  std::shared_ptr<server::ReplyChannel> reply_;  // null: answered, or the client left
  const std::chrono::steady_clock::time_point start_;
  const std::shared_ptr<RouteSpan> span_;  // shared with the first leg
  BackendTurns turns_;
  std::shared_ptr<BackendCall> call_;  // shared with its own running operations
  server::HttpResponse head_;          // with the body, until it is sent to the client
  bool is_collected_ = false;          // the answer is short, or may not go to the client
  bool is_streaming_ = false;          // the client has seen the head
  std::string last_failure_;
};

}  // namespace quire::gateway
