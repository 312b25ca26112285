// These tests check what is read of each trace format, and that malformed lines are refused with
// file and line.
#include "sim/workload/trace.h"

#include <gtest/gtest.h>

#include <cstring>

#include "sim/workload/servegen.h"
#include "sim/workload/synthetic.h"
#include "tests/support/test_data.h"

namespace quire::sim {
namespace {

Workload must_parse(std::string_view text, const TraceOptions& options = {}) {
  auto workload = parse_trace(text, "t", options);
  EXPECT_TRUE(workload.ok()) << workload.status().message();
  return workload.ok() ? std::move(workload).value() : Workload{};
}

void expect_refused(std::string_view text, std::string_view begin, std::string_view part) {
  const auto workload = parse_trace(text, "trace.x");
  ASSERT_FALSE(workload.ok()) << text;
  const std::string message = workload.status().message();
  EXPECT_TRUE(message.starts_with(begin)) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Trace, Azure) {
  const Workload w = must_parse(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 23:59:59.9000000,4808,10\r\n"
      "2023-11-17 00:00:00.1500000,3180,8\n"
      "2023-11-17T00:00:01+00:00,5,7\n"
      "2023-11-17T02:30:02+02:30,5,7\n"
      "2023-11-16 19:00:03.5-05:00,5,7\n");
  ASSERT_EQ(w.requests.size(), 5u);
  EXPECT_EQ(w.requests[3].arrival_ns, 2'100'000'000);
  EXPECT_EQ(w.requests[4].arrival_ns, 3'600'000'000);
  EXPECT_EQ(w.requests[0].arrival_ns, 0);
  EXPECT_EQ(w.requests[1].arrival_ns, 250'000'000);
  EXPECT_EQ(w.requests[2].arrival_ns, 1'100'000'000);
  EXPECT_EQ(w.requests[0].input_tokens, 4808);
  EXPECT_EQ(w.requests[1].output_tokens, 8);
  EXPECT_NE(w.requests[0].content, w.requests[1].content);
}

TEST(Trace, BurstGptBothVersionsWithoutFailedRows) {
  const Workload w = must_parse(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
      "Type\n"
      "5,9,1.2,ChatGPT,472,18,490,Conversation log\n"
      "45.5,9,0.4,ChatGPT,1087,0,1087,Conversation log\n"
      "118,3,3.5,GPT-4,417,276,693,API log\n");
  ASSERT_EQ(w.requests.size(), 2u);
  EXPECT_EQ(w.requests[1].arrival_ns, 113'000'000'000);
  EXPECT_NE(w.requests[0].session, w.requests[1].session);
  EXPECT_EQ(must_parse("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                       "5,ChatGPT,472,18,490,Conversation log\n")
                .requests.size(),
            1u);
}

TEST(Trace, VidurWithAndWithoutTimes) {
  EXPECT_EQ(must_parse("arrived_at,num_prefill_tokens,num_decode_tokens\n1.5,3,4\n2.5,5,6\n")
                .requests[1]
                .arrival_ns,
            1'000'000'000);
  TraceOptions options;
  options.lengths_at = [](int64_t i) { return i * 100; };
  const Workload w = must_parse(
      "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3,4,7,0.75\n5,6,11,0.8\n",
      options);
  EXPECT_EQ(w.requests[1].arrival_ns, 100);
}

TEST(Trace, MooncakeBlocksAreTheSameTokensWhereTheirIdsAre) {
  const Workload w = must_parse(
      R"({"timestamp": 0, "input_length": 1100, "output_length": 6, "hash_ids": [7, 8, 9]})"
      "\n"
      R"({"timestamp": 27, "input_length": 1536, "output_length": 4, "hash_ids": [7, 8, 10]})"
      "\n");
  ASSERT_EQ(w.requests.size(), 2u);
  EXPECT_EQ(w.requests[1].arrival_ns, 27'000'000);
  std::vector<TokenId> a, b;
  w.fill_prompt(w.requests[0], a);
  w.fill_prompt(w.requests[1], b);
  ASSERT_EQ(a.size(), 1100u);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 1024, b.begin()));
  EXPECT_NE(a[1024], b[1024]);
  EXPECT_NE(a[0], a[512]);
}

TEST(Trace, BailianChatsShareASession) {
  const Workload w = must_parse(
      R"({"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 20, "output_length": 6, "type": "text", "turn": 1, "hash_ids": [7, 8]})"
      "\n"
      R"({"chat_id": 5, "parent_chat_id": 1, "timestamp": 9.5, "input_length": 40, "output_length": 6, "type": "text", "turn": 2, "hash_ids": [7, 8, 9]})"
      "\n"
      R"({"chat_id": 6, "parent_chat_id": -1, "timestamp": 9.5, "input_length": 16, "output_length": 6, "type": "text", "turn": 1, "hash_ids": [3]})");
  ASSERT_EQ(w.requests.size(), 3u);
  EXPECT_EQ(w.hash_block_tokens, 16);
  EXPECT_EQ(w.requests[0].session, w.requests[1].session);
  EXPECT_NE(w.requests[0].session, w.requests[2].session);
  EXPECT_EQ(w.requests[1].arrival_ns, 9'000'000'000);
}

TEST(Trace, VllmResults) {
  const Workload w = must_parse(
      R"({"duration": 3.0, "input_lens": [10, 20, 30], "output_lens": [5, 0, 7], "start_times": [100.0, 100.5, 102.0]})");
  ASSERT_EQ(w.requests.size(), 2u);
  EXPECT_EQ(w.requests[1].arrival_ns, 2'000'000'000);
  EXPECT_EQ(w.requests[1].input_tokens, 30);
}

TEST(Trace, OursIsLossless) {
  SyntheticOptions options;
  options.num_requests = 60;
  options.turns = LengthDistribution::constant(3);
  options.prefix_tokens = 20;
  options.think_s = 1;
  options.closed_loop = ClosedLoop{.concurrency = 4, .think_ns = 5};
  Workload workload = *make_synthetic(options);
  workload.requests[3].priority = -2;
  const Workload hashed = must_parse(
      R"({"timestamp": 0, "input_length": 1100, "output_length": 6, "hash_ids": [7, 8, 9]})");
  for (const Workload* w : {static_cast<const Workload*>(&workload), &hashed}) {
    const std::string text = write_trace(*w);
    const Workload back = must_parse(text);
    EXPECT_EQ(back.requests, w->requests);
    EXPECT_EQ(back.hash_blocks, w->hash_blocks);
    EXPECT_EQ(back.hash_block_tokens, w->hash_block_tokens);
    EXPECT_EQ(back.closed_loop.has_value(), w->closed_loop.has_value());
    EXPECT_EQ(write_trace(back), text);
  }
}

TEST(Trace, RefusesWithFileAndLine) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,7\n";
  expect_refused("", "trace.x:1:", "known format");
  expect_refused("who,knows\n1,2\n", "trace.x:1:", "known format");
  expect_refused("TIMESTAMP,ContextTokens\n", "trace.x:1:", "GeneratedTokens");
  expect_refused(azure + "2023-11-16 18:17:03,5\n", "trace.x:3:", "expected 3 fields");
  expect_refused(azure + "2023-11-16 18:17:03,x,7\n", "trace.x:3: ContextTokens", "got 'x'");
  expect_refused(azure + "2023-11-16 18:17:03,5,-1\n", "trace.x:3: GeneratedTokens", "-1");
  expect_refused(azure + "2023-11-16 18:17:03,5,99999999999999999999\n", "trace.x:3:", "integer");
  expect_refused(azure + "yesterday,5,7\n", "trace.x:3: TIMESTAMP", "yesterday");
  expect_refused("arrived_at,num_prefill_tokens,num_decode_tokens\nnan,3,4\n", "trace.x:2:", "nan");
  expect_refused("arrived_at,num_prefill_tokens,num_decode_tokens\n", "trace.x:", "no requests");
  const std::string good = R"({"timestamp":0,"input_length":5,"output_length":6,"hash_ids":[7]})";
  expect_refused(good + "\n{\"timestamp\": 0,\n", "trace.x:2:", "not JSON");
  expect_refused(good + "\n[]\n", "trace.x:2:", "object");
  expect_refused(good + "\n" + R"({"timestamp":0,"input_length":5,"hash_ids":[7]})",
                 "trace.x:2:", "output_length");
  expect_refused(R"({"timestamp":0,"input_length":5,"output_length":6,"hash_ids":[7,8]})",
                 "trace.x:1:", "at most 1 blocks");
  expect_refused(R"({"timestamp":0,"input_length":1e99,"output_length":6,"hash_ids":[]})",
                 "trace.x:1:", "input_length");
  const std::string header = R"({"format":"quire-trace","version":1})";
  expect_refused(R"({"format":"quire-trace","version":2})", "trace.x:1:", "version");
  expect_refused(header + "\n" + R"({"t":0,"in":1,"out":1,"content":"xyz"})",
                 "trace.x:2:", "hexadecimal");
  expect_refused(header + "\n" + R"({"t":0,"in":1,"out":1,"content":"1","after":0})",
                 "trace.x:2:", "after");
  expect_refused(header + "\n" + R"({"t":0,"in":0,"out":1,"content":"1"})", "trace.x:2:", "in");
  expect_refused(R"({"input_lens":[1,2],"output_lens":[1]})", "trace.x:", "expected 2 values");
  // The result of vllm bench is one document, so an error names the array index instead of a line.
  expect_refused(R"({"input_lens":[1,"x"],"output_lens":[1,1]})", "trace.x: input_lens[1]",
                 "number");
  expect_refused(R"({"input_lens":[1],"output_lens":[1],"start_times":[-1]})",
                 "trace.x: start_times[0]", "number");
  expect_refused(R"({"input_lens":[1],"output_lens":"many"})", "trace.x: output_lens", "array");
  EXPECT_FALSE(read_trace("/nowhere/trace.csv").ok());
}

TEST(Trace, ColumnsOfUsualNames) {
  const Workload csv = must_parse(
      "Request ID,\"Arrival Time [ms]\",completion_tokens,promptTokens,session_id\r\n"
      "1,\"1017.5\",4,30,a\r\n2,1000,0,31,a\r\n\r\n3, 1000 ,5,31,a\r\n");
  ASSERT_EQ(csv.requests.size(), 2u) << "a request without output is left out";
  EXPECT_EQ(csv.requests[0].input_tokens, 31);
  EXPECT_EQ(csv.requests[0].output_tokens, 5);
  EXPECT_EQ(csv.requests[1].arrival_ns, 17'500'000);
  EXPECT_EQ(csv.requests[1].session, csv.requests[0].session);
  const Workload lines = must_parse(R"({"isl":5,"osl":7,"time":"2024-05-10T00:00:02Z","extra":[1]})"
                                    "\n"
                                    R"({"time":"2024-05-10T00:00:00+00:00","isl":6,"osl":8})");
  ASSERT_EQ(lines.requests.size(), 2u);
  EXPECT_EQ(lines.requests[0].input_tokens, 6) << "in order of time";
  EXPECT_EQ(lines.requests[1].arrival_ns, 2'000'000'000);
  const Workload lengths = must_parse("prompt_size,token_size\n3,4\n");
  EXPECT_EQ(lengths.requests[0].arrival_ns, 0);

  expect_refused("time,input_tokens,output_tokens\n0,1,1\n1,2.5,3\n", "trace.x:3: input_tokens",
                 "got '2.5'");
  expect_refused("time,input_tokens,output_tokens\nNaN,1,1\n", "trace.x:2: time", "NaN");
  expect_refused("isl,input_tokens,output_tokens\n1,1,1\n", "trace.x:2:", "'input_tokens' as well");
  expect_refused("{\"isl\":1,\"osl\":1}\n{\"osl\":1}\n", "trace.x:2:", "column of input tokens");
  expect_refused("{\"isl\":1,\"osl\":1}\n{\"isl\":[2],\"osl\":1}\n", "trace.x:2: isl", "[2]");
}

TEST(Trace, MooncakeWithoutHashesHasNoTwoPromptsAlike) {
  const Workload w = must_parse(R"({"timestamp":0,"input_length":700,"output_length":6})"
                                "\n"
                                R"({"timestamp":2000,"input_length":700,"output_length":6})");
  ASSERT_EQ(w.requests.size(), 2u);
  EXPECT_EQ(w.requests[1].arrival_ns, 2'000'000'000) << "milliseconds";
  EXPECT_NE(w.requests[0].content, w.requests[1].content);
}

TEST(Trace, RefusesBurstGptAndBailianWithFileAndLine) {
  const std::string burst =
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n";
  expect_refused("Timestamp,Model,Request tokens\n", "trace.x:1:", "Response tokens");
  expect_refused(burst + "6,ChatGPT,472,18\n", "trace.x:3:", "expected 6 fields");
  expect_refused(burst + "soon,ChatGPT,472,18,490,API log\n", "trace.x:3: Timestamp", "soon");
  expect_refused(burst + "-6,ChatGPT,472,18,490,API log\n", "trace.x:3: Timestamp", "-6");
  expect_refused(burst + "6,ChatGPT,4.5,18,490,API log\n", "trace.x:3: Request tokens", "4.5");
  expect_refused(burst + "6,ChatGPT,4,,490,API log\n", "trace.x:3: Response tokens", "integer");
  const std::string chat =
      R"({"chat_id":1,"parent_chat_id":-1,"timestamp":0,"input_length":5,"output_length":6,)"
      R"("type":"text","turn":1,"hash_ids":[7]})";
  const auto without = [&](const std::string& key) {
    std::string text = chat;
    return chat + "\n" + text.replace(text.find(key), key.size(), "\"other\"");
  };
  for (const char* key : {"\"parent_chat_id\"", "\"timestamp\"", "\"input_length\"",
                          "\"output_length\"", "\"hash_ids\""}) {
    expect_refused(without(key), "trace.x:2:", std::string(key).substr(1, std::strlen(key) - 2));
  }
  std::string negative = chat;
  negative.replace(negative.find("[7]"), 3, "[-7]");
  expect_refused(chat + "\n" + negative, "trace.x:2: hash_ids", ">= 0");
}

TEST(ServeGen, DrawsRatesAndLengthsOfItsWindows) {
  ServeGenClient client;
  client.trace_name = "chunk-0-trace.csv";
  client.trace = "0,10,2,Gamma,0.25,0.4\n600,0,0,,0,0\n1200,5,1,Weibull,1,0.2\n";
  client.dataset_name = "chunk-0-dataset.json";
  client.dataset =
      R"({"0": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{7: 1.0}"}})";
  const auto w = parse_servegen({client}, {.duration_s = 1800, .rate_factor = 2});
  ASSERT_TRUE(w.ok()) << w.status().message();
  int64_t first = 0, second = 0, third = 0;
  double input = 0;
  for (const SimRequest& r : w->requests) {
    const int64_t window = r.arrival_ns / 600'000'000'000;
    (window == 0 ? first : window == 1 ? second : third) += 1;
    input += r.input_tokens;
    EXPECT_EQ(r.output_tokens, 7);
  }
  EXPECT_NEAR(static_cast<double>(first), 12000, 1000);
  EXPECT_EQ(second, 0);
  EXPECT_NEAR(static_cast<double>(third), 6000, 400);
  EXPECT_NEAR(input / static_cast<double>(w->requests.size()), 150, 3);
  ServeGenClient bad = client;
  bad.trace = "0,10,2,Gamma,0.25,0.4\n600,x,2,Gamma,0.25,0.4\n";
  EXPECT_TRUE(parse_servegen({bad}, {}).status().message().starts_with("chunk-0-trace.csv:2:"));
  bad.trace = "600,10,2,Gamma,0.25,0.4\n0,10,2,Gamma,0.25,0.4\n";
  EXPECT_EQ(parse_servegen({bad}, {}).status().message(),
            "chunk-0-trace.csv:2: expected growing times, got 0 after 600");
  bad.trace = "\n";
  EXPECT_EQ(parse_servegen({bad}, {}).status().message(),
            "chunk-0-trace.csv: expected at least one window, got an empty file");
  bad = client;
  bad.dataset = R"({"0": {"input_tokens": "{100 0.5}", "output_tokens": "{}"}})";
  EXPECT_TRUE(parse_servegen({bad}, {}).status().message().starts_with("chunk-0-dataset.json:"));
}

TEST(TraceData, EveryRecordedTraceIsRead) {
  QUIRE_REQUIRE_SHARED(traces, "traces");
  const auto azure = read_trace(traces / "azure_llm_2023_code.csv.gz");
  ASSERT_TRUE(azure.ok()) << azure.status().message();
  EXPECT_EQ(azure->requests.size(), 8819u);
  const auto mooncake = read_trace(traces / "mooncake_synthetic.jsonl.gz");
  ASSERT_TRUE(mooncake.ok()) << mooncake.status().message();
  EXPECT_EQ(mooncake->requests.size(), 3993u);
  const auto vidur = read_trace(traces / "vidur_arxiv_summarization_lengths.csv.gz");
  ASSERT_TRUE(vidur.ok()) << vidur.status().message();
  EXPECT_EQ(vidur->requests.size(), 28257u);
  for (const char* service : {"m-small", "deepseek-r1"}) {
    const auto servegen =
        read_servegen(traces / "servegen" / service, {.duration_s = 1.2e6, .rate_factor = 1e-3});
    ASSERT_TRUE(servegen.ok()) << servegen.status().message();
    EXPECT_GT(servegen->requests.size(), 100u);
  }
}

}  // namespace
}  // namespace quire::sim
