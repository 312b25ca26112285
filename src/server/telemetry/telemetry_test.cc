#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "server/http/metrics_text.h"
#include "server/telemetry/exporter.h"
#include "server/telemetry/otlp.h"
#include "server/telemetry/trace_context.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, OfAHeader) {
  const auto context = parse_traceparent(kParent);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->parent_id, "b7ad6b7169203331");
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(traceparent(*context, context->parent_id), kParent);
  EXPECT_FALSE(
      parse_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")->is_sampled);
  EXPECT_TRUE(parse_traceparent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
  EXPECT_EQ(new_trace().trace_id.size(), 32u);
  EXPECT_EQ(new_span_id().size(), 16u);
  EXPECT_NE(new_span_id(), new_span_id());
}

TEST(TraceContext, WhatIsWrittenOtherwiseCountsForNothing) {
  for (const char* const bad : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                                "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01"}) {
    EXPECT_FALSE(parse_traceparent(bad)) << bad;
  }
}

TEST(Otlp, SpansAsTheProtocolHasThem) {
  Span span{
      .trace = *parse_traceparent(kParent), .span_id = "00f067aa0ba902b7", .name = "llm_request"};
  span.start_ns = 1'700'000'000'000'000'001;
  span.end_ns = span.start_ns + 5;
  span.attributes = {{"a", std::string("x")}, {"b", int64_t{7}}, {"c", 0.5}};
  const json::value body = json::parse(otlp_traces({&span, 1}, "mine"));
  const json::value& of_resource = body.at("resourceSpans").at(0);
  EXPECT_EQ(of_resource.at("resource").at("attributes").at(0).at("value").at("stringValue"),
            "mine");
  const json::value& out = of_resource.at("scopeSpans").at(0).at("spans").at(0);
  EXPECT_EQ(out.at("traceId"), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(out.at("parentSpanId"), "b7ad6b7169203331");
  EXPECT_EQ(out.at("startTimeUnixNano"), "1700000000000000001");
  EXPECT_EQ(out.at("attributes").at(1).at("value").at("intValue"), "7");
  EXPECT_EQ(out.at("attributes").at(2).at("value").at("doubleValue"), 0.5);
  EXPECT_FALSE(out.as_object().contains("status"));
}

TEST(Otlp, MetricsKeepNamesLabelsAndBuckets) {
  MetricsWriter text;
  const std::vector<MetricLabel> labels = {{"model_name", "a\"b\\c\nd"}};
  text.family("g", "gauge", "A gauge.");
  text.sample("g", labels, 1.5);
  text.family("c_total", "counter", "A counter.");
  text.sample("c_total", {}, 3);
  text.family("h_seconds", "histogram", "Times.");
  Histogram histogram({1, 2});
  for (const double x : {0.5, 1.5, 1.7, 9.0}) histogram.observe(x);
  text.histogram("h_seconds", labels, histogram);
  const json::value body = json::parse(otlp_metrics(text.take(), "q", 5, 9));
  const json::array& metrics =
      body.at("resourceMetrics").at(0).at("scopeMetrics").at(0).at("metrics").as_array();
  ASSERT_EQ(metrics.size(), 3u);
  const json::value& gauge = metrics[0].at("gauge").at("dataPoints").at(0);
  EXPECT_EQ(gauge.at("asDouble"), 1.5);
  EXPECT_EQ(gauge.at("attributes").at(0).at("value").at("stringValue"), "a\"b\\c\nd");
  EXPECT_EQ(metrics[1].at("sum").at("isMonotonic"), true);
  EXPECT_EQ(metrics[1].at("description"), "A counter.");
  const json::value& times = metrics[2].at("histogram").at("dataPoints").at(0);
  EXPECT_EQ(json::serialize(times.at("bucketCounts")), R"(["1","2","1"])");
  EXPECT_EQ(json::serialize(times.at("explicitBounds")), "[1E0,2E0]");
  EXPECT_EQ(times.at("count"), "4");
  EXPECT_EQ(times.at("startTimeUnixNano"), "5");
}

TEST(OtlpEndpoint, HostPortAndPath) {
  const auto full = parse_otlp_endpoint("http://collector:4319/x", "/v1/traces");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->host + " " + full->port + " " + full->target, "collector 4319 /x");
  const auto bare = parse_otlp_endpoint("http://[::1]", "/v1/traces");
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->host + " " + bare->port + " " + bare->target, "::1 4318 /v1/traces");
  const auto encrypted = parse_otlp_endpoint("https://collector", "/v1/traces");
  ASSERT_TRUE(encrypted.ok());
  EXPECT_EQ(encrypted->text() + " " + encrypted->port, "https://collector/v1/traces 443");
  for (const char* const bad : {"", "collector:4318", "grpc://a:1", "http://", "http://:1",
                                "http://a:b", "http://a:123456", "http://a b/", "http://u@h/"}) {
    EXPECT_FALSE(parse_otlp_endpoint(bad, "/").ok()) << bad;
  }
}

TEST(OtlpHeaders, AsOpenTelemetryWritesThem) {
  const auto headers = parse_otlp_headers("api-key=a%20b=c, x-team = 7 ,");
  ASSERT_TRUE(headers.ok());
  ASSERT_EQ(headers->size(), 2u);
  EXPECT_EQ((*headers)[0], std::pair(std::string("api-key"), std::string("a b=c")));
  EXPECT_EQ((*headers)[1], std::pair(std::string("x-team"), std::string("7")));
  EXPECT_TRUE(parse_otlp_headers("")->empty());
  for (const char* const bad : {"a", "=b", "a b=c", "a=%0d%0aX: y", "a=%zz", "a=b,c"})
    EXPECT_FALSE(parse_otlp_headers(bad).ok()) << bad;
}

TEST(OtlpExporter, AFileOfAuthoritiesIsReadWhereItIsNeeded) {
  const ExporterOptions options{.traces_endpoint = "https://a", .ca_file = "/nowhere"};
  EXPECT_NE(OtlpExporter::create(options).status().message().find("--otlp-ca-file: /nowhere"),
            std::string::npos);
}

TEST(OtlpExporter, NobodyWaitsForACollectorThatIsNotThere) {
  auto exporter =
      OtlpExporter::create({.traces_endpoint = "http://127.0.0.1:9", .max_queued = 100});
  ASSERT_TRUE(exporter.ok());
  (*exporter)->start([] { return std::string(); });
  for (int i = 0; i < 20'000; ++i)
    (*exporter)->add({.trace = new_trace(), .span_id = "1", .name = "n"});
  (*exporter)->stop();
  const std::string metrics = (*exporter)->metrics_text();
  EXPECT_NE(metrics.find("quire:otlp_spans_dropped_total 20000.0\n"), std::string::npos) << metrics;
}

}  // namespace
}  // namespace quire::server
