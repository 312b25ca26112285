#include "gateway/gateway.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "gateway/testing/fake_backend.h"
#include "server/testing/test_client.h"

namespace quire::gateway {
namespace {

using server::ClientResponse;
using server::TestClient;
using test::chunk;
using test::FakeBackend;
using test::kStreamHead;
using test::whole_answer;
using Exchange = FakeBackend::Exchange;

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::unique_ptr<Gateway> start(const std::vector<const FakeBackend*>& backends,
                               Routing routing = Routing::kPrefixAware) {
  GatewayOptions options;
  options.server.port = 0;
  options.router.routing = routing;
  options.health.interval = std::chrono::milliseconds(50);
  options.health.timeout = std::chrono::milliseconds(500);
  auto gateway = std::make_unique<Gateway>(options);
  EXPECT_TRUE(gateway->start().ok());
  std::vector<BackendAddress> addresses;
  for (const FakeBackend* backend : backends)
    addresses.push_back(parse_backend(backend->url()).value());
  gateway->set_backends(addresses);
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy() == backends.size(); }));
  return gateway;
}

FakeBackend::Answer says(std::string text) {
  return [text = std::move(text)](const Exchange& exchange) {
    exchange.write(whole_answer(text));
    return true;
  };
}

std::string prompt_of(int family, int turn) {
  return fmt::format(R"({{"messages":"{} {} end"}})",
                     std::string(2000, static_cast<char>('a' + family)), turn);
}

TEST(Gateway, PassesRequestsAndAnswersOn) {
  std::string seen;
  FakeBackend backend([&](const Exchange& exchange) {
    seen = exchange.request;
    exchange.write(
        "HTTP/1.1 201 Created\r\nContent-Type: text/x\r\nX-Own: 1\r\nX-Hop: 1\r\n"
        "Connection: keep-alive, x-hop\r\nContent-Length: 5\r\n\r\nhello");
    return true;
  });
  const auto gateway = start({&backend});
  TestClient client(gateway->port());
  const ClientResponse answer =
      client.request("POST", "/v1/a%20b%3f%2Fc?x=%20y", "{\"a\":1}",
                     {"Authorization: Bearer k", "X-Request-Id: 7", "X-Mine: 1", "X-Other: 2",
                      "Connection: X-MINE ,keep-alive", "Connection: x-other"});
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.headers.at("content-type"), "text/x");
  EXPECT_EQ(answer.headers.at("x-own"), "1");
  EXPECT_FALSE(answer.headers.contains("x-hop"));
  EXPECT_TRUE(seen.starts_with("POST /v1/a%20b%3f%2Fc?x=%20y HTTP/1.1\r\n")) << seen;
  EXPECT_NE(seen.find(fmt::format("Host: 127.0.0.1:{}\r\n", backend.port())), seen.npos);
  EXPECT_NE(seen.find("uthorization: Bearer k\r\n"), seen.npos);
  for (const char* const dropped : {"X-Mine", "X-Other", "Connection"})
    EXPECT_EQ(seen.find(dropped), seen.npos) << seen;
  EXPECT_TRUE(seen.ends_with("\r\n\r\n{\"a\":1}"));
  EXPECT_EQ(client.request("GET", "/x").status, 201);
  EXPECT_EQ(client.request("GET", "/health").status, 200);
  EXPECT_NE(client.request("GET", "/metrics").body.find("quire:route_requests_total 2.0"),
            std::string::npos);
}

// Returns the body of an answer in chunks, whose borders may be anywhere.
std::string text_of_chunks(std::string_view answer) {
  std::string text;
  size_t at = answer.find("\r\n\r\n") + 4;
  while (at < answer.size()) {
    const size_t size = std::stoul(std::string(answer.substr(at)), nullptr, 16);
    if (size == 0) break;
    const size_t begin = answer.find("\r\n", at) + 2;
    text += answer.substr(begin, size);
    at = begin + size + 2;
  }
  return text;
}

TEST(Gateway, StreamsPassThroughAsTheyCome) {
  std::atomic<bool> has_seen_first{false};
  FakeBackend backend([&](const Exchange& exchange) {
    exchange.write(kStreamHead);
    exchange.write(chunk("data: one\n\n"));
    while (!has_seen_first) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::string rest = chunk("data: two\n\n") + chunk("data: [DONE]\n\n") + "0\r\n\r\n";
    for (const char c : rest) exchange.write({&c, 1});
    return true;
  });
  const auto gateway = start({&backend});
  TestClient client(gateway->port());
  client.send(server::http_request("POST", "/v1/completions", "{}"));
  std::string seen;
  const auto read_to = [&](std::string_view end) {
    while (seen.find(end) == seen.npos) {
      const std::string more = client.receive_some(1);
      if (more.empty()) return false;
      seen += more;
    }
    return true;
  };
  EXPECT_TRUE(read_to("data: one"));
  has_seen_first = true;
  EXPECT_TRUE(read_to("\r\n0\r\n\r\n")) << seen;
  EXPECT_EQ(text_of_chunks(seen), "data: one\n\ndata: two\n\ndata: [DONE]\n\n");
}

TEST(Gateway, LargeAnswersAndSlowReadersHoldLittle) {
  const std::string text(8 << 20, 'x');
  std::atomic<size_t> num_written{0};
  FakeBackend backend([&](const Exchange& exchange) {
    exchange.write(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8388608\r\n\r\n");
    for (size_t at = 0; at < text.size(); at += 65536) {
      exchange.write(std::string_view(text).substr(at, 65536));
      num_written = at + 65536;
    }
    return true;
  });
  const auto gateway = start({&backend});
  TestClient client(gateway->port());
  client.send(server::http_request("GET", "/large", ""));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(num_written.load(), text.size()) << "the gateway read what its client does not take";
  const ClientResponse answer = client.receive();
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.body, text);
}

TEST(Gateway, PromptsThatBeginAlikeGoToOneBackend) {
  FakeBackend a(says("a")), b(says("b")), c(says("c"));
  const auto gateway = start({&a, &b, &c});
  TestClient client(gateway->port());
  std::map<int, std::set<std::string>> by_family;
  std::set<std::string> all;
  for (int turn = 0; turn < 6; ++turn) {
    for (int family = 0; family < 6; ++family) {
      const std::string who = client.post("/v1/chat/completions", prompt_of(family, turn)).body;
      by_family[family].insert(who);
      all.insert(who);
    }
  }
  EXPECT_EQ(all.size(), 3u);
  for (const auto& [family, who] : by_family) EXPECT_EQ(who.size(), 1u) << family;
}

TEST(Gateway, WhatFailsBeforeTheFirstByteIsAskedOfAnother) {
  // In turn, the backend closes at once, closes within its head, cuts a short answer, sends no
  // valid HTTP, and sends only the head of a stream.
  const std::vector<std::string> faults = {"", "HTTP/1.1 200 OK\r\nContent-Le",
                                           "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                                           "what?\r\n\r\n", std::string(kStreamHead)};
  for (const std::string& fault : faults) {
    FakeBackend bad([&](const Exchange& exchange) {
      exchange.write(fault);
      return false;
    });
    FakeBackend good(says("good"));
    const auto gateway = start({&bad, &good}, Routing::kRoundRobin);
    for (int i = 0; i < 6; ++i) {
      TestClient client(gateway->port());
      const ClientResponse answer = client.post("/v1/completions", "{}");
      EXPECT_EQ(answer.status, 200) << fault;
      EXPECT_EQ(answer.body, "good") << fault;
    }
    EXPECT_GE(bad.num_requests, 1) << fault;
  }
}

TEST(Gateway, AFullBackendSpillsAndAllFullSaysSo) {
  const auto full = [](const Exchange& exchange) {
    exchange.write("HTTP/1.1 429 X\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nfull");
    return true;
  };
  FakeBackend a(full), b(full);
  const auto gateway = start({&a, &b});
  TestClient client(gateway->port());
  const ClientResponse answer = client.post("/v1/completions", "{}");
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body, "full");
  EXPECT_EQ(answer.headers.at("retry-after"), "3");
  EXPECT_EQ(a.num_requests + b.num_requests, 2);
  EXPECT_EQ(gateway->num_healthy(), 2u);
}

TEST(Gateway, ACutStreamEndsWithAnErrorAndACutBodyIsCut) {
  FakeBackend backend([](const Exchange& exchange) {
    if (exchange.request.find("stream") != std::string::npos) {
      exchange.write(kStreamHead);
      exchange.write(chunk("data: one\n\n") + "5\r\nda");
    } else {
      exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nabc");
    }
    return false;
  });
  const auto gateway = start({&backend});
  {
    TestClient client(gateway->port());
    const ClientResponse answer = client.post("/v1/completions", R"({"stream":true})");
    EXPECT_TRUE(answer.complete);
    const auto events = server::events_of(answer.body);
    ASSERT_FALSE(events.empty());
    EXPECT_NE(events.back().find("\"error\""), std::string::npos) << answer.body;
    EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
  }
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy() == 1; }));
  TestClient client(gateway->port());
  const ClientResponse answer = client.request("GET", "/large");
  EXPECT_FALSE(answer.complete);
}

TEST(Gateway, EjectsAndTakesBack) {
  FakeBackend a(says("a")), b(says("b"));
  const auto gateway = start({&a, &b}, Routing::kRoundRobin);
  const auto answers = [&] {
    std::set<std::string> all;
    for (int i = 0; i < 8; ++i) {
      TestClient client(gateway->port());
      const ClientResponse answer = client.post("/v1/completions", "{}");
      EXPECT_EQ(answer.status, 200);
      all.insert(answer.body);
    }
    return all;
  };
  EXPECT_EQ(answers(), (std::set<std::string>{"a", "b"}));
  b.close();
  EXPECT_EQ(answers(), std::set<std::string>{"a"});
  EXPECT_EQ(gateway->num_healthy(), 1u);
  b.open();
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy() == 2; }));
  EXPECT_EQ(answers(), (std::set<std::string>{"a", "b"}));
  a.health = 503;  // the backend drains
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy() == 1; }));
  EXPECT_EQ(answers(), std::set<std::string>{"b"});
  b.close();
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy() == 0; }));
  TestClient client(gateway->port());
  const ClientResponse answer = client.post("/v1/completions", "{}");
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.headers.contains("retry-after"));
  EXPECT_EQ(client.request("GET", "/ready").status, 503);
}

TEST(Gateway, AClientThatLeavesIsToldToTheBackend) {
  std::atomic<bool> was_told{false};
  FakeBackend backend([&](const Exchange& exchange) {
    exchange.write(kStreamHead);
    exchange.write(chunk("data: one\n\n"));
    was_told = exchange.is_closed(5'000);
    return false;
  });
  const auto gateway = start({&backend});
  {
    TestClient client(gateway->port());
    client.send(server::http_request("POST", "/v1/completions", "{}"));
    EXPECT_FALSE(client.receive_some(100).empty());
  }
  EXPECT_TRUE(eventually([&] { return was_told.load(); }));
  EXPECT_TRUE(gateway->wait_idle(2'000));
  EXPECT_EQ(gateway->num_healthy(), 1u);
}

TEST(Gateway, ADrainFinishesWhatRunsAndRefusesWhatIsNew) {
  std::atomic<bool> has_begun{false};
  std::atomic<bool> may_end{false};
  FakeBackend backend([&](const Exchange& exchange) {
    exchange.write(kStreamHead);
    exchange.write(chunk("data: one\n\n"));
    has_begun = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    exchange.write(chunk("data: [DONE]\n\n") + "0\r\n\r\n");
    return true;
  });
  const auto gateway = start({&backend});
  TestClient client(gateway->port());
  client.send(server::http_request("POST", "/v1/completions", "{}"));
  EXPECT_TRUE(eventually([&] { return has_begun.load(); }));
  TestClient late(gateway->port());
  gateway->begin_drain();
  EXPECT_EQ(late.post("/v1/completions", "{}").status, 503);
  EXPECT_FALSE(gateway->wait_idle(50));
  may_end = true;
  EXPECT_TRUE(gateway->wait_idle(5'000));
  EXPECT_TRUE(client.receive().complete);
}

TEST(Gateway, ABackendThatIsRemovedFinishesWhatItHas) {
  std::atomic<bool> has_begun{false};
  std::atomic<bool> may_end{false};
  FakeBackend a([&](const Exchange& exchange) {
    exchange.write(kStreamHead);
    exchange.write(chunk("data: a\n\n"));
    has_begun = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    exchange.write("0\r\n\r\n");
    return true;
  });
  FakeBackend b(says("b"));
  const auto gateway = start({&a});
  TestClient client(gateway->port());
  client.send(server::http_request("POST", "/v1/completions", "{}"));
  EXPECT_TRUE(eventually([&] { return has_begun.load(); }));
  gateway->set_backends({parse_backend(b.url()).value()});
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy() == 1; }));
  TestClient other(gateway->port());
  EXPECT_EQ(other.post("/v1/completions", "{}").body, "b");
  may_end = true;
  const server::ClientResponse response = client.receive();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body, "data: a\n\n");
}

TEST(Gateway, ServersWithoutReadyAreAskedForTheirHealth) {
  FakeBackend backend([](const Exchange& exchange) {
    const bool is_health = exchange.request.starts_with("GET /health ");
    exchange.write(whole_answer(is_health ? "" : "x"));
    return true;
  });
  backend.health = 404;
  const auto gateway = start({&backend});
  TestClient client(gateway->port());
  EXPECT_EQ(client.post("/v1/completions", "{}").body, "x");
}

std::unique_ptr<Gateway> start_split(const std::vector<const FakeBackend*>& prefill,
                                     const std::vector<const FakeBackend*>& decode) {
  auto gateway = start(decode);
  std::vector<BackendAddress> addresses;
  for (const FakeBackend* backend : prefill)
    addresses.push_back(parse_backend(backend->url()).value());
  gateway->set_prefill_backends(addresses);
  EXPECT_TRUE(eventually([&] { return gateway->num_healthy_prefill() == prefill.size(); }));
  return gateway;
}

TEST(Gateway, PromptsGoToPrefillFirst) {
  std::string first, second;
  FakeBackend prefill([&](const Exchange& exchange) {
    first = exchange.request;
    exchange.write(whole_answer(R"({"kv_transfer_params":{"do_remote_prefill":true,"k":"7"}})"));
    return true;
  });
  FakeBackend decode([&](const Exchange& exchange) {
    second = exchange.request;
    exchange.write(whole_answer("text"));
    return true;
  });
  const auto gateway = start_split({&prefill}, {&decode});
  TestClient client(gateway->port());
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a","max_tokens":5})").body, "text");
  EXPECT_NE(first.find(R"("max_tokens":1)"), first.npos) << first;
  EXPECT_NE(first.find(R"("do_remote_decode":true)"), first.npos) << first;
  EXPECT_TRUE(second.ends_with(
      R"({"kv_transfer_params":{"do_remote_prefill":true,"k":"7"},"prompt":"a","max_tokens":5})"))
      << second;
  // A request without a prompt has one leg.
  EXPECT_EQ(client.request("GET", "/v1/models").body, "text");
  EXPECT_EQ(prefill.num_requests, 1);
}

TEST(Gateway, AServerThatPrefillsTooHasTwoSeries) {
  FakeBackend backend(says("x"));
  const auto gateway = start_split({&backend}, {&backend});
  TestClient client(gateway->port());
  const std::string metrics = client.request("GET", "/metrics").body;
  for (const char* const prefills : {"false", "true"}) {
    const std::string series =
        fmt::format("quire:route_backend_up{{backend=\"127.0.0.1:{}\",prefills=\"{}\"}} 1",
                    backend.port(), prefills);
    EXPECT_NE(metrics.find(series), std::string::npos) << metrics;
  }
}

// Whatever happens to the first leg, the second one answers.
TEST(Gateway, WithoutPrefillOneServerDoesAll) {
  const std::vector<std::string> faults = {"",
                                           "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                                           "what?\r\n\r\n",
                                           whole_answer("busy", 503),
                                           whole_answer("no", 400),
                                           whole_answer("{}")};
  for (const std::string& fault : faults) {
    FakeBackend prefill([&](const Exchange& exchange) {
      exchange.write(fault);
      return false;
    });
    std::string seen;
    FakeBackend decode([&](const Exchange& exchange) {
      seen = exchange.request;
      exchange.write(whole_answer("text"));
      return true;
    });
    const auto gateway = start_split({&prefill}, {&decode});
    TestClient client(gateway->port());
    const ClientResponse answer = client.post("/v1/completions", R"({"prompt":"a"})");
    EXPECT_EQ(answer.body, "text") << fault;
    EXPECT_TRUE(seen.ends_with("\r\n\r\n{\"prompt\":\"a\"}")) << seen;
    EXPECT_GE(prefill.num_requests, 1) << fault;
    EXPECT_NE(client.request("GET", "/metrics").body.find("quire:route_prefills_failed_total 1.0"),
              std::string::npos);
  }
}

TEST(Gateway, AClientThatLeavesDuringPrefillIsToldToIt) {
  std::atomic<bool> was_told{false};
  FakeBackend prefill([&](const Exchange& exchange) {
    was_told = exchange.is_closed(5'000);
    return false;
  });
  FakeBackend decode(says("text"));
  const auto gateway = start_split({&prefill}, {&decode});
  {
    TestClient client(gateway->port());
    client.send(server::http_request("POST", "/v1/completions", R"({"prompt":"a"})"));
    EXPECT_TRUE(eventually([&] { return prefill.num_requests == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return was_told.load(); }));
  EXPECT_TRUE(gateway->wait_idle(2'000));
  EXPECT_EQ(decode.num_requests, 0);
}

}  // namespace
}  // namespace quire::gateway
