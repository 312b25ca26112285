// Runs the ranks of a group of processes as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/rank_links.h"

namespace quire::test {

// Returns a port that was free a moment ago.
inline uint16_t free_port() {
  const auto listener = listen_on(0);
  EXPECT_TRUE(listener.ok());
  return port_of(*listener);
}

using LinksWork = std::function<void(Result<std::unique_ptr<RankLinks>>)>;

// `change` may give one rank options that differ from those of the rest.
inline void on_all_ranks(int size, RankLinksOptions options, const LinksWork& work,
                         const std::function<void(RankLinksOptions&)>& change = {}) {
  options.size = size;
  options.port = free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    options.rank = rank;
    RankLinksOptions own = options;
    if (change) change(own);
    threads.emplace_back([&work, own] { work(RankLinks::join(own)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Returns when all ranks have called it. They may then end without the others taking that for a
// loss.
inline void part_in_peace(RankLinks& links) {
  std::byte done{};
  if (links.rank() > 0) {
    EXPECT_TRUE(send_all(links.control(0), {&done, 1}, deadline_in_ms(20'000)).ok());
    EXPECT_FALSE(receive_all(links.control(0), {&done, 1}, deadline_in_ms(20'000)).ok());
    return;
  }
  for (int other = 1; other < links.size(); ++other)
    EXPECT_TRUE(receive_all(links.control(other), {&done, 1}, deadline_in_ms(20'000)).ok());
  links.end();
}

}  // namespace quire::test
