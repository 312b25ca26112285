// A Connection is one client's connection: it reads requests, passes each to a RequestHandler,
// writes the answer, notices when the client leaves, and enforces every limit of a connection. All
// its state is used on its strand only.
//
//   idle --first byte--> reading --complete--> handling --answer written--> idle
//                                                       --answer written--> lingering --> closed
//
// The socket is watched while a request is handled, so that a client that leaves is noticed at
// once.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/http/connection_handler.h"
#include "server/http/http_request_reader.h"
#include "server/http/http_types.h"
#include "server/http/server_options.h"
#include "server/http/socket/body_charge.h"
#include "server/http/socket/deadline.h"
#include "server/http/socket/socket_writer.h"
#include "server/tls/client_stream.h"

namespace quire::server {

class Connection;

// ConnectionShared is what all connections of one server share.
struct ConnectionShared {
  ServerLimits limits;
  RequestHandler* handler = nullptr;  // must outlive every connection
  // The engine's wake-up calls own it too, because they may come when the server is already gone.
  std::shared_ptr<boost::asio::io_context> io;
  std::atomic<uint64_t> body_bytes{0};
  std::atomic<bool> closing{false};  // answers carry Connection: close
  std::atomic<bool> stopped{false};  // a new connection closes at once
  std::atomic<int64_t> last_failure_s{0};
  std::mutex mutex;
  TlsContext tls;  // of new connections; null: no TLS; guarded by mutex
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> open;  // guarded by mutex
};

class Connection final : public ReplyChannel, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = ClientStream::Socket;

  Connection(Socket socket, TlsContext tls, std::shared_ptr<ConnectionShared> shared);
  ~Connection() override;

  void start();  // any thread, once
  void stop();   // any thread: closes at once, in any state

  // ReplyChannel
  void send(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  void write(std::string_view data) override;
  void end_stream() override;
  void cut(const std::string& why) override;
  bool wants_more() const override;
  void attach(std::shared_ptr<OngoingCall> call) override;
  std::function<void(std::function<void()>)> poster() override;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kReading, kHandling, kLingering, kClosed };

  // An Exchange is a request and its answer, from the first byte to the last.
  struct Exchange {
    HttpRequest head;  // without body
    Clock::time_point start = Clock::now();
    int status = 0;
    bool answered = false;  // the whole answer is in the writer
    bool streaming = false;
    bool chunked = false;
    bool was_full = false;  // wants_more() returned false; the call waits for on_writable()
    double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  };

  // Runs a part of an exchange. An exception (memory is short) ends this exchange and no other one.
  template <typename Work>
  void contain(Work&& work) {
    try {
      work();
    } catch (const std::exception& e) {
      cut(e.what());  // a string this short needs no memory, of which there may be none
    }
  }
  void read();
  void on_read(const boost::system::error_code& ec, size_t num_bytes);
  void process();
  void answer_early(HttpResponse response);
  void begin_exchange(const HttpRequest& head);
  void flush();
  void on_written(const boost::system::error_code& ec);
  void finish_exchange();
  void finish_answer();
  void client_left();
  void close();
  void on_deadline();

  ClientStream stream_;
  Deadline deadline_;
  std::shared_ptr<ConnectionShared> shared_;
  HttpRequestReader reader_;
  SocketWriter writer_;
  BodyCharge body_charge_;
  std::array<char, 8192> read_buffer_;

  Phase phase_ = Phase::kReading;
  bool reading_ = false;  // an async read is running
  bool keep_alive_ = true;
  bool saw_eof_ = false;
  uint64_t discarded_bytes_ = 0;
  Exchange exchange_;  // the running one

  std::shared_ptr<OngoingCall>
      call_;  // shared with whatever else keeps the call alive while it runs
};

}  // namespace quire::server
