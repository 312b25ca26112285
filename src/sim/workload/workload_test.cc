// Arrivals and lengths must have the right moments, and contents must repeat where prompts share
// them.
#include "sim/workload/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sim/workload/synthetic.h"
#include "sim/workload/token_content.h"

namespace quire::sim {
namespace {

SyntheticOptions many(int64_t n) {
  SyntheticOptions options;
  options.num_requests = n;
  options.input = LengthDistribution::constant(10);
  options.output = LengthDistribution::constant(5);
  return options;
}

Workload must_make(const SyntheticOptions& options) {
  auto workload = make_synthetic(options);
  EXPECT_TRUE(workload.ok()) << workload.status().message();
  return std::move(workload).value();
}

struct Moments {
  double mean = 0, cv = 0;
};
Moments moments(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size())) / mean};
}

TEST(Arrivals, GapsHaveTheirMeanAndVariation) {
  struct Expected {
    const char* text;
    double cv;
  };
  for (const Expected& e : {Expected{"poisson", 1.0}, Expected{"gamma:2", 2.0},
                            Expected{"gamma:0.5", 0.5}, Expected{"weibull:0.7", 1.4624},
                            Expected{"weibull:2", 0.5227}, Expected{"constant", 0.0}}) {
    SyntheticOptions options = many(60000);
    options.rate = RateProfile::constant(4);
    options.arrivals = *ArrivalProcess::parse(e.text, "arrivals");
    const Workload workload = must_make(options);
    std::vector<double> gaps;
    for (size_t i = 1; i < workload.requests.size(); ++i) {
      gaps.push_back(static_cast<double>(workload.requests[i].arrival_ns -
                                         workload.requests[i - 1].arrival_ns) *
                     1e-9);
    }
    const Moments m = moments(gaps);
    EXPECT_NEAR(m.mean, 0.25, 0.25 * 0.03) << e.text;
    EXPECT_NEAR(m.cv, e.cv, 0.04 * std::max(e.cv, 0.01)) << e.text;
  }
}

TEST(Arrivals, FollowTheRateProfile) {
  SyntheticOptions options = many(1 << 20);
  options.rate = *RateProfile::parse("0:0,100:20,200:20,201:0", "rate");
  options.arrivals.kind = ArrivalKind::kConstant;
  const Workload workload = must_make(options);
  int64_t by_100 = 0;
  for (const SimRequest& r : workload.requests) by_100 += r.arrival_ns < 100'000'000'000;
  EXPECT_NEAR(static_cast<double>(by_100), 1000, 2);
  EXPECT_NEAR(static_cast<double>(workload.requests.size()), 3010, 2);
  EXPECT_TRUE(RateProfile::parse("inf", "rate")->infinite());
  EXPECT_FALSE(RateProfile::parse("5:1,4:2", "rate").ok());
  EXPECT_FALSE(RateProfile::parse("0", "rate").ok());
}

TEST(Lengths, HaveTheirMeans) {
  struct Expected {
    const char* text;
    double mean, cv;
  };
  for (const Expected& e :
       {Expected{"constant:100", 100, 0}, Expected{"77", 77, 0},
        Expected{"uniform:50:150", 100, 0.2915}, Expected{"range:1000:0.8", 900, 0.0642},
        Expected{"spread:1000:0.5", 1000, 0.2887}, Expected{"normal:500:50", 500, 0.1},
        Expected{"lognormal:400:400", 400, 1.0}, Expected{"exponential:300", 300, 1.0},
        Expected{"pareto:100:5", 125, 0.2582}}) {
    const auto distribution = LengthDistribution::parse(e.text, "lengths");
    ASSERT_TRUE(distribution.ok()) << distribution.status().message();
    RandomStream random(1, 2);
    std::vector<double> values;
    for (int i = 0; i < 50000; ++i) values.push_back(distribution->draw(random));
    const Moments m = moments(values);
    EXPECT_NEAR(m.mean, e.mean, 0.02 * e.mean) << e.text;
    EXPECT_NEAR(m.cv, e.cv, 0.05 * std::max(e.cv, 0.02)) << e.text;
  }
  for (const char* bad : {"", "uniform:5", "uniform:9:5", "range:5:2", "constant:0", "pareto:5:0",
                          "normal:x:1", "empirical:/nowhere", "lognormal:1:2:3", "-4"}) {
    const auto distribution = LengthDistribution::parse(bad, "--input-len");
    ASSERT_FALSE(distribution.ok()) << bad;
  }
}

TEST(Content, RepeatsWithinAStreamAndNowhereElse) {
  std::vector<TokenId> a(64), b(32), c(64);
  fill_content(stream_id(1, 1), 0, a);
  fill_content(stream_id(1, 1), 32, b);
  fill_content(stream_id(1, 2), 0, c);
  EXPECT_TRUE(std::equal(b.begin(), b.end(), a.begin() + 32));
  std::set<TokenId> seen(a.begin(), a.end());
  EXPECT_EQ(seen.size(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NE(a[i], c[i]);
    EXPECT_EQ(a[i], content_token(stream_id(1, 1), static_cast<int64_t>(i)));
    EXPECT_GE(a[i], 0);
    EXPECT_LT(a[i], kVocabSize);
  }
}

TEST(Synthetic, LaterTurnsBeginWithWhatWasSaid) {
  SyntheticOptions options = many(50);
  options.turns = LengthDistribution::constant(3);
  options.prefix_tokens = 7;
  options.num_prefixes = 2;
  options.think_s = 2;
  const Workload workload = must_make(options);
  ASSERT_EQ(workload.requests.size(), 50u);
  std::vector<TokenId> prompt, before;
  for (const SimRequest& r : workload.requests) {
    workload.fill_prompt(r, prompt);
    if (r.previous < 0) {
      EXPECT_EQ(r.input_tokens, 17);
      continue;
    }
    const SimRequest& previous = workload.requests[static_cast<size_t>(r.previous)];
    EXPECT_EQ(r.input_tokens, previous.input_tokens + 15);
    workload.fill_prompt(previous, before);
    for (int32_t p = previous.input_tokens; p < previous.input_tokens + 5; ++p) {
      before.push_back(content_token(previous.content, p));  // the answer of that turn
    }
    EXPECT_TRUE(std::equal(before.begin(), before.end(), prompt.begin()));
  }
}

TEST(Synthetic, FewPromptsAreAskedAgain) {
  SyntheticOptions options = many(40);
  options.num_prompts = 3;
  const Workload workload = must_make(options);
  std::set<std::vector<TokenId>> prompts;
  for (const SimRequest& r : workload.requests) {
    std::vector<TokenId> prompt;
    workload.fill_prompt(r, prompt);
    prompts.insert(prompt);
  }
  EXPECT_LE(prompts.size(), 3u);
}

TEST(Synthetic, SameSeedSameWorkload) {
  SyntheticOptions options = many(200);
  options.input = *LengthDistribution::parse("lognormal:100:80", "in");
  const Workload a = must_make(options), b = must_make(options);
  EXPECT_EQ(a.requests, b.requests);
  options.seed = 1;
  EXPECT_NE(a.requests, must_make(options).requests);
}

TEST(WorkloadCheck, NamesTheRequestThatIsWrong) {
  Workload workload = must_make(many(3));
  workload.requests[2].previous = 2;
  EXPECT_NE(workload.validate().message().find("request 2"), std::string::npos);
  workload.requests[2].previous = -1;
  workload.requests[1].output_tokens = 0;
  EXPECT_NE(workload.validate().message().find("request 1"), std::string::npos);
}

TEST(WorkloadCheck, VirtualTimeHasAnEnd) {
  SyntheticOptions options = many(20);
  options.closed_loop = ClosedLoop{.concurrency = 2, .think_ns = kMaxTimeNs / 10};
  EXPECT_TRUE(make_synthetic(options).ok());
  ++options.closed_loop->think_ns;
  EXPECT_NE(make_synthetic(options).status().message().find("10 pauses"), std::string::npos);
  options = many(20);
  options.turns = LengthDistribution::constant(2);
  options.think_s = 1e300;
  EXPECT_NE(make_synthetic(options).status().message().find("expected times up to"),
            std::string::npos);
}

}  // namespace
}  // namespace quire::sim
