#include "server/pooling/pooling_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cstring>
#include <iterator>
#include <numeric>

#include "base/base64.h"
#include "engine/output/similarity.h"

namespace quire::server {
namespace {

// Writer writes JSON as text, because a batch of embeddings has tens of thousands of numbers.
class Writer {
 public:
  Writer& raw(std::string_view text) {
    out_ += text;
    return *this;
  }
  Writer& string(std::string_view text) {
    out_ += boost::json::serialize(boost::json::value(boost::json::string(text)));
    return *this;
  }
  template <typename... Args>
  Writer& format(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
    return *this;
  }
  Writer& numbers(std::span<const float> row) {
    out_ += '[';
    for (size_t i = 0; i < row.size(); ++i) format("{}{}", i == 0 ? "" : ",", row[i]);
    out_ += ']';
    return *this;
  }
  Writer& comma(size_t index) { return index == 0 ? *this : raw(","); }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

std::span<const float> row_of(const PooledOutput& output, int32_t row) {
  const auto columns = static_cast<size_t>(output.num_columns);
  return std::span(output.values).subspan(static_cast<size_t>(row) * columns, columns);
}

// Returns little-endian float32, which is the format of this machine.
std::string bytes_of(std::span<const float> row) {
  return {reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)};
}

void write_usage(const PreparedPooling& call, Writer& out) {
  out.format(R"("usage":{{"prompt_tokens":{0},"total_tokens":{0},"completion_tokens":0,)",
             call.num_prompt_tokens)
      .raw(R"("prompt_tokens_details":null})");
}

void write_head(const PreparedPooling& call, std::string_view object, Writer& out) {
  out.raw(R"({"id":)").string(call.id);
  out.raw(R"(,"object":)").string(object);
  out.format(R"(,"created":{},"model":)", call.created_s).string(call.model);
}

void write_row(const PreparedPooling& call, std::span<const float> row, Writer& out) {
  if (call.format == VectorFormat::kFloat) {
    out.numbers(row);
  } else {
    out.string(base64_encode(bytes_of(row)));
  }
}

void write_data(const PreparedPooling& call, std::span<const PooledOutput> outputs, Writer& out) {
  const bool embeds = call.route == PoolingRoute::kEmbeddings;
  write_head(call, "list", out);
  out.raw(R"(,"data":[)");
  for (size_t i = 0; i < outputs.size(); ++i) {
    out.comma(i).format(R"({{"index":{},"object":"{}","{}":)", i, embeds ? "embedding" : "pooling",
                        embeds ? "embedding" : "data");
    const bool per_token = is_per_token(call.requests[i].pooling->task);
    if (per_token) out.raw("[");
    for (int32_t row = 0; row < outputs[i].num_rows(); ++row)
      write_row(call, row_of(outputs[i], row), out.comma(static_cast<size_t>(row)));
    out.raw(per_token ? "]}" : "}");
  }
  out.raw("],");
  write_usage(call, out);
  out.raw("}");
}

void write_ollama(const PreparedPooling& call, std::span<const PooledOutput> outputs, Writer& out) {
  out.raw(R"({"model":)").string(call.model).raw(R"(,"embeddings":[)");
  for (size_t i = 0; i < outputs.size(); ++i) out.comma(i).numbers(row_of(outputs[i], 0));
  out.format(R"(],"prompt_eval_count":{}}})", call.num_prompt_tokens);
}

void write_classes(const PreparedPooling& call, std::span<const PooledOutput> outputs,
                   const std::vector<std::string>& labels, Writer& out) {
  write_head(call, "list", out);
  out.raw(R"(,"data":[)");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::span<const float> probs = row_of(outputs[i], 0);
    const auto best =
        static_cast<size_t>(std::max_element(probs.begin(), probs.end()) - probs.begin());
    out.comma(i).format(R"({{"index":{},"label":)", i);
    out.string(best < labels.size() ? labels[best] : fmt::format("LABEL_{}", best));
    out.raw(R"(,"probs":)").numbers(probs).format(R"(,"num_classes":{}}})", probs.size());
  }
  out.raw("],");
  write_usage(call, out);
  out.raw("}");
}

std::vector<double> scores_of(const PreparedPooling& call, std::span<const PooledOutput> outputs) {
  std::vector<double> scores;
  const size_t num_queries = call.num_queries;
  for (size_t i = num_queries; i < outputs.size(); ++i) {
    if (num_queries == 0) {
      scores.push_back(double{outputs[i].values[0]});
      continue;
    }
    const PooledOutput& query = outputs[num_queries == 1 ? 0 : i - num_queries];
    scores.push_back(cosine_similarity(query.values, outputs[i].values));
  }
  return scores;
}

void write_scores(const PreparedPooling& call, std::span<const PooledOutput> outputs, Writer& out) {
  const std::vector<double> scores = scores_of(call, outputs);
  write_head(call, "list", out);
  out.raw(R"(,"data":[)");
  for (size_t i = 0; i < scores.size(); ++i)
    out.comma(i).format(R"({{"index":{},"object":"score","score":{}}})", i, scores[i]);
  out.raw("],");
  write_usage(call, out);
  out.raw("}");
}

void write_ranks(const PreparedPooling& call, std::span<const PooledOutput> outputs, Writer& out) {
  const std::vector<double> scores = scores_of(call, outputs);
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (call.top_n > 0) order.resize(std::min(order.size(), call.top_n));
  out.raw(R"({"id":)").string(call.id).raw(R"(,"model":)").string(call.model);
  out.format(R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}},"results":[)",
             call.num_prompt_tokens);
  for (size_t i = 0; i < order.size(); ++i) {
    out.comma(i).format(R"({{"index":{},)", order[i]);
    if (call.returns_documents)
      out.raw(R"("document":{"text":)").string(call.texts[order[i]]).raw("},");
    out.format(R"("relevance_score":{}}})", scores[order[i]]);
  }
  out.raw("]}");
}

void write_cohere(const PreparedPooling& call, std::span<const PooledOutput> outputs, Writer& out) {
  out.raw(R"({"id":)").string(call.id).raw(R"(,"embeddings":{"float":[)");
  for (size_t i = 0; i < outputs.size(); ++i) out.comma(i).numbers(outputs[i].values);
  out.raw(R"(]},"texts":[)");
  for (size_t i = 0; i < call.texts.size(); ++i) out.comma(i).string(call.texts[i]);
  out.format(
      R"(],"meta":{{"api_version":{{"version":"2"}},"billed_units":{{"input_tokens":{}}}}},)",
      call.num_prompt_tokens);
  out.raw(R"("response_type":"embeddings_by_type"})");
}

// Returns all vectors one after the other as the body, with a header that describes them.
HttpResponse bytes_answer(const PreparedPooling& call, std::span<const PooledOutput> outputs) {
  HttpResponse response{200, "application/octet-stream", "", {}};
  Writer metadata;
  write_head(call, "list", metadata);
  metadata.raw(R"(,"data":[)");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t begin = response.body.size();
    response.body += bytes_of(outputs[i].values);
    metadata.comma(i).format(
        R"({{"index":{},"embed_dtype":"float32","endianness":"little","start":{},"end":{},"shape":[{}]}})",
        i, begin, response.body.size(), outputs[i].values.size());
  }
  metadata.raw("],");
  write_usage(call, metadata);
  response.headers.emplace_back("metadata", metadata.raw("}").take());
  return response;
}

}  // namespace

HttpResponse pooling_answer(const PreparedPooling& call, std::span<const PooledOutput> outputs,
                            const std::vector<std::string>& labels) {
  if (call.format == VectorFormat::kBytes) return bytes_answer(call, outputs);
  Writer out;
  switch (call.route) {
    case PoolingRoute::kEmbeddings:
    case PoolingRoute::kPooling:
      write_data(call, outputs, out);
      break;
    case PoolingRoute::kCohereEmbed:
      write_cohere(call, outputs, out);
      break;
    case PoolingRoute::kClassify:
      write_classes(call, outputs, labels, out);
      break;
    case PoolingRoute::kScore:
      write_scores(call, outputs, out);
      break;
    case PoolingRoute::kRerank:
      write_ranks(call, outputs, out);
      break;
    case PoolingRoute::kOllamaEmbed:
      write_ollama(call, outputs, out);
      break;
  }
  return {200, "application/json", out.take(), {}};
}

}  // namespace quire::server
