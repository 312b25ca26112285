#include "engine/output/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

struct Ended {
  std::string text;
  std::optional<size_t> stop;
  friend bool operator==(const Ended&, const Ended&) = default;
};

// The specification: the stop string that ends first, or of those that end together the first in
// the list.
Ended naive(const std::string& text, const std::vector<std::string>& stops, bool include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    for (size_t k = 0; k < stops.size(); ++k) {
      if (end < stops[k].size() ||
          text.compare(end - stops[k].size(), stops[k].size(), stops[k]) != 0)
        continue;
      return {text.substr(0, include ? end : end - stops[k].size()), k};
    }
  }
  return {text, std::nullopt};
}

Ended feed_all(StopMatcher& matcher, const std::vector<std::string>& pieces) {
  Ended got;
  for (const std::string& piece : pieces) {
    auto out = matcher.feed(piece, true);
    got.text += out.text;
    if (out.stop) {
      got.stop = out.stop;
      return got;
    }
  }
  got.text += matcher.flush();
  return got;
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeAStop) {
  StopMatcher matcher({"END", "stop"}, false);
  EXPECT_EQ(matcher.feed("the ", true).text, "the ");
  EXPECT_EQ(matcher.feed("EN", true).text, "");
  EXPECT_EQ(matcher.feed("TRY s", true).text, "ENTRY ");
  EXPECT_EQ(matcher.feed("to", true).text, "");
  const auto out = matcher.feed("pping", true);
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.stop, 1u);
}

TEST(StopMatcher, IncludedStopIsSentAsItComes) {
  StopMatcher matcher({"END"}, true);
  EXPECT_EQ(matcher.feed("aEN", true).text, "aEN");
  const auto out = matcher.feed("Dxyz", true);
  EXPECT_EQ(out.text, "D");
  EXPECT_EQ(out.stop, 0u);
}

TEST(StopMatcher, FlushGivesWhatWasHeld) {
  StopMatcher matcher({"\n\nUser:"}, false);
  EXPECT_EQ(matcher.feed("bye\n\nUs", true).text, "bye");
  EXPECT_EQ(matcher.flush(), "\n\nUs");
}

TEST(StopMatcher, PassedOverStopsMayStillOverlapALaterOne) {
  StopMatcher matcher({"aba"}, false);
  EXPECT_EQ(matcher.feed("xaba", false).text, "xab");  // ignored; its last a may begin another
  const auto out = matcher.feed("ba", true);
  EXPECT_EQ(out.stop, 0u);
  EXPECT_EQ(out.text, "");
}

TEST(StopMatcher, AnyCutOfTheTextGivesTheSame) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    const auto word = [&](size_t max) {
      std::string s(1 + rng() % max, 'a');
      for (char& c : s) c = static_cast<char>('a' + rng() % 2);
      return s;
    };
    std::vector<std::string> stops(1 + rng() % 4);
    for (auto& stop : stops) stop = word(6);
    const std::string text = word(30);
    const bool include = rng() % 2 != 0;
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, rng() % 5));
      at += pieces.back().size();
    }
    StopMatcher matcher(stops, include);
    const Ended expected = naive(text, stops, include);
    ASSERT_EQ(feed_all(matcher, pieces), expected) << text;
  }
}

}  // namespace
}  // namespace quire
