#include "gateway/backend_call.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "gateway/testing/fake_backend.h"

namespace quire::gateway {
namespace {

using test::FakeBackend;
using test::whole_answer;

class Answer final : public BackendListener {
 public:
  void on_head(server::HttpResponse, std::optional<uint64_t>) override {}
  void on_body(std::string_view piece) override { body += piece; }
  void on_end() override { has_ended = true; }
  void on_failure(const std::string& why) override { failure = why; }
  bool wants_more() const override { return true; }

  std::string body;
  std::string failure;
  bool has_ended = false;
};

// Its calls share one backend, and so idle connections.
class BackendCallTest : public testing::Test {
 protected:
  std::shared_ptr<Answer> ask(const FakeBackend& server, std::chrono::milliseconds timeout) {
    if (backend_ == nullptr) {
      backend_ = std::make_shared<Backend>(0, parse_backend(server.url()).value());
      backend_->endpoints = {{boost::asio::ip::make_address("127.0.0.1"), server.port()}};
    }
    auto answer = std::make_shared<Answer>();
    std::make_shared<BackendCall>(io_.get_executor(), backend_, answer, scratch_,
                                  BackendCall::Options{.answer_timeout = timeout})
        ->start("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    io_.restart();
    io_.run();
    return answer;
  }

  boost::asio::io_context io_;
  std::array<char, 4096> scratch_{};
  std::shared_ptr<Backend> backend_;
};

// The backend may be at work on the request, so it must not get it a second time.
TEST_F(BackendCallTest, ATimeoutOnAReusedConnectionIsATimeout) {
  bool answers = true;
  FakeBackend server([&](const FakeBackend::Exchange& exchange) {
    if (answers) {
      exchange.write(whole_answer("a"));
      return true;
    }
    exchange.is_closed(5'000);
    return false;
  });
  EXPECT_EQ(ask(server, std::chrono::seconds(5))->body, "a");
  answers = false;
  EXPECT_EQ(ask(server, std::chrono::milliseconds(50))->failure, "it did not answer in time");
  EXPECT_EQ(server.num_requests, 2);
}

TEST_F(BackendCallTest, AReusedConnectionThatIsClosedIsReplaced) {
  int num_asked = 0;
  FakeBackend server([&](const FakeBackend::Exchange& exchange) {
    const bool answers = ++num_asked != 2;
    if (answers) exchange.write(whole_answer("a"));
    return answers;
  });
  EXPECT_EQ(ask(server, std::chrono::seconds(5))->body, "a");
  const std::shared_ptr<Answer> second = ask(server, std::chrono::seconds(5));
  EXPECT_TRUE(second->has_ended) << second->failure;
  EXPECT_EQ(num_asked, 3);
}

}  // namespace
}  // namespace quire::gateway
