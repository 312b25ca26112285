// These tests compare the store of responses with a naive model and check its limits.
#include "server/responses/response_store.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quire::server {
namespace {

namespace json = boost::json;

StoredResponse::Begin begin_of(std::string id, int64_t now_us, size_t input_bytes = 10) {
  json::array input{json::object{{"id", "i"}, {"text", std::string(input_bytes, 'a')}}};
  return {.id = std::move(id),
          .created_us = now_us,
          .keeps_events = true,
          .input = std::make_shared<const json::array>(std::move(input)),
          .response = {{"status", "in_progress"}, {"output", json::array{}}}};
}

json::object ended() { return {{"status", "completed"}, {"output", json::array{1, 2}}}; }

TEST(ResponseStore, KeepsWhatANaiveModelKeeps) {
  std::mt19937 random(5);
  constexpr int64_t kTtlUs = 100;
  ResponseStore store(uint64_t{1} << 40, kTtlUs);
  struct Known {
    int64_t created_us;
    bool has_ended;
    std::string owner;
  };
  std::map<std::string, Known> model;
  int64_t now_us = 0;
  for (int step = 0; step < 20'000; ++step) {
    now_us += static_cast<int64_t>(random() % 5);
    const std::string id = std::to_string(random() % 60);
    const std::string owner(1, static_cast<char>('a' + random() % 2));
    switch (random() % 4) {
      case 0:
        if (!model.contains(id)) {
          StoredResponse::Begin begin = begin_of(id, now_us);
          begin.owner = owner;
          store.add(std::move(begin));
          model[id] = {now_us, false, owner};
        }
        break;
      case 1:
        store.erase(id);
        model.erase(id);
        break;
      case 2:
        if (const auto stored = store.find(id, owner, now_us)) {
          stored->finish(ended());
          model.at(id).has_ended = true;
        }
        break;
      default:
        break;
    }
    // The oldest responses that have ended are removed first, so those that are too old are gone.
    std::erase_if(model, [&](const auto& known) {
      return known.second.has_ended && now_us - known.second.created_us >= kTtlUs;
    });
    const auto found = store.find(id, owner, now_us);
    const auto known = model.find(id);
    ASSERT_EQ(found != nullptr, known != model.end() && known->second.owner == owner) << step;
    ASSERT_EQ(store.size(), model.size()) << step;
  }
}

TEST(ResponseStore, BytesAreBoundedAndAllComeBack) {
  std::mt19937 random(6);
  constexpr uint64_t kMaxBytes = 100'000;
  ResponseStore store(kMaxBytes, int64_t{1} << 60);
  std::shared_ptr<ResponseTurn> turn;
  for (int i = 0; i < 3'000; ++i) {
    StoredResponse::Begin begin = begin_of(std::to_string(i), i, random() % 3'000);
    if (random() % 3 != 0) begin.previous = turn;
    const auto stored = store.add(std::move(begin));
    stored->add_event(std::string(random() % 500, 'e'));
    stored->finish(ended());
    turn = stored->turn();
    store.trim(i);
    // Only the newest turn holds the turns before it.
    uint64_t bytes_of_chain = 0;
    for (const ResponseTurn* t = turn.get(); t != nullptr; t = t->previous().get()) {
      bytes_of_chain += 5'000;
    }
    ASSERT_LE(store.held_bytes(), kMaxBytes + bytes_of_chain) << i;
  }
  turn.reset();
  for (int i = 0; i < 3'000; ++i) store.erase(std::to_string(i));
  EXPECT_EQ(store.held_bytes(), 0u);
  EXPECT_EQ(store.size(), 0u);
}

TEST(ResponseStore, LongConversationsNeedNoLongStack) {
  ResponseStore store(uint64_t{1} << 40, int64_t{1} << 60);
  std::shared_ptr<ResponseTurn> turn;
  for (int i = 0; i < 300'000; ++i) {
    StoredResponse::Begin begin = begin_of("x", 0, 1);
    begin.previous = std::move(turn);
    const auto stored = store.make(std::move(begin));
    stored->finish({{"output", json::array{}}});
    turn = stored->turn();
  }
  turn.reset();
  EXPECT_EQ(store.held_bytes(), 0u);
}

TEST(StoredResponse, EventsAreReadFromAnyPlace) {
  ResponseStore store(1 << 20, 1 << 20);
  const auto stored = store.add(begin_of("a", 0));
  int rung = 0;
  auto bell = std::make_shared<std::function<void()>>([&] { ++rung; });
  stored->add_bell(bell);
  std::string all;
  for (int i = 0; i < 10; ++i) {
    stored->add_event(std::to_string(i));
    all += std::to_string(i);
  }
  EXPECT_EQ(rung, 10);
  bool at_end = true;
  std::string out;
  EXPECT_EQ(stored->read_events(10, 100, out, at_end), 10);
  EXPECT_FALSE(at_end);
  stored->finish(ended());
  EXPECT_EQ(rung, 11);
  for (int64_t first = 0; first <= 10; ++first) {
    for (const size_t piece : {1u, 3u, 100u}) {
      out.clear();
      int64_t next = first;
      at_end = false;
      while (!at_end) next = stored->read_events(next, piece, out, at_end);
      EXPECT_EQ(out, all.substr(static_cast<size_t>(first)));
    }
  }
  bell.reset();
  stored->add_event("after the end");
  out.clear();
  EXPECT_EQ(stored->read_events(0, 100, out, at_end), 10);
}

TEST(StoredResponse, CancelStopsWhatRunsOnce) {
  ResponseStore store(1 << 20, 1 << 20);
  int stopped = 0;
  const auto stored = store.add(begin_of("a", 0));
  stored->set_cancel([&] { ++stopped; });
  stored->cancel();
  stored->cancel();
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(stored->response().at("status").as_string(), "cancelled");
  const auto ended_before = store.add(begin_of("b", 0));
  ended_before->set_cancel([&] { ++stopped; });
  ended_before->finish(ended());
  ended_before->cancel();
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(ended_before->response().at("status").as_string(), "completed");
}

}  // namespace
}  // namespace quire::server
