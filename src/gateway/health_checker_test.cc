#include "gateway/health_checker.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/asio/io_context.hpp>

#include "gateway/testing/fake_backend.h"

namespace quire::gateway {
namespace {

TEST(HealthChecker, ALookupThatRunsIsNotStartedAgain) {
  test::FakeBackend server([](const test::FakeBackend::Exchange&) { return false; });
  boost::asio::io_context io;
  const auto known = Tcp::resolver(io).resolve("localhost", std::to_string(server.port()));
  BackendSet backends({});
  backends.set({{.host = "localhost", .port = server.port()}});
  std::array<char, 4096> scratch{};
  HealthChecker health(io.get_executor(), backends, {.interval = std::chrono::hours(1)}, scratch);
  health.check_all();
  health.check_all();  // the handlers of the first lookup have not run yet
  for (int i = 0; i < 100 && !backends.all()[0]->is_healthy(); ++i)
    io.run_for(std::chrono::milliseconds(50));
  io.run_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(backends.all()[0]->is_healthy());
  EXPECT_EQ(backends.all()[0]->endpoints.size(), known.size());
}

}  // namespace
}  // namespace quire::gateway
