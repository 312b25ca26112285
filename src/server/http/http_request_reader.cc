#include "server/http/http_request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"

namespace quire::server {
namespace {

namespace http = boost::beast::http;
using ErrorCode = boost::beast::error_code;

// GrowingBody grows as bytes arrive. Beast's string_body would reserve as many bytes as
// Content-Length claims before the first one has come.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, ErrorCode& ec) { ec = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, ErrorCode& ec) {
      ec = {};
      size_t total = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers);
           it != boost::asio::buffer_sequence_end(buffers); ++it) {
        const boost::asio::const_buffer part(*it);
        body_.append(static_cast<const char*>(part.data()), part.size());
        total += part.size();
      }
      return total;
    }
    void finish(ErrorCode& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

constexpr size_t kPlainChunkHeaderBytes = 20;

int status_of(const ErrorCode& ec) {
  if (ec == http::error::body_limit) return 413;
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) return 431;
  if (ec == http::error::bad_version) return 505;
  return 400;
}

}  // namespace

struct HttpRequestReader::Parser {
  http::request_parser<GrowingBody> impl;
  // These count for a chunked body. put() reads at most one chunk header; the last one includes the
  // trailer.
  bool saw_chunk_header = false;
  uint64_t framing_bytes = 0;
  std::function<void(uint64_t, boost::core::string_view, ErrorCode&)> on_chunk_header =
      [this](uint64_t, boost::core::string_view, ErrorCode&) { saw_chunk_header = true; };
};

HttpRequestReader::HttpRequestReader(const ServerLimits& limits) : limits_(limits) {}
HttpRequestReader::~HttpRequestReader() = default;

void HttpRequestReader::append(std::string_view bytes) {
  if (consumed_ > 0) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_.append(bytes);
}

bool HttpRequestReader::started() const { return parser_ != nullptr || buffered_bytes() > 0; }

size_t HttpRequestReader::buffered_bytes() const { return buffer_.size() - consumed_; }

uint64_t HttpRequestReader::held_bytes() const {
  return buffered_bytes() + (parser_ ? parser_->impl.get().body().size() : 0);
}

HttpRequestReader::State HttpRequestReader::fail(int status, std::string message) {
  error_status_ = status;
  error_message_ = std::move(message);
  return State::kError;
}

HttpRequestReader::State HttpRequestReader::advance() {
  if (error_status_ != 0) return State::kError;
  if (!parser_) {
    // Empty lines before a request are tolerated (RFC 9112, section 2.2).
    while (consumed_ < buffer_.size() &&
           (buffer_[consumed_] == '\r' || buffer_[consumed_] == '\n')) {
      ++consumed_;
    }
    if (buffered_bytes() == 0) return State::kNeedMore;
    parser_ = std::make_unique<Parser>();
    parser_->impl.header_limit(limits_.header_bytes);
    parser_->impl.body_limit(limits_.body_bytes);
    parser_->impl.on_chunk_header(parser_->on_chunk_header);
  }
  auto& parser = parser_->impl;
  while (!parser.is_done()) {
    if (parser.is_header_done() && !head_reported_) return read_head();
    if (buffered_bytes() == 0) return State::kNeedMore;
    // The parser asserts that the last chunk, once it has begun to read it, still has at least the
    // bytes "0 CR LF CR LF". No valid rest of a chunked body is shorter.
    constexpr size_t kShortestRest = 5;
    if (waits_in_chunk_header_ && buffered_bytes() < kShortestRest) return State::kNeedMore;
    ErrorCode ec;
    const size_t used =
        parser.put(boost::asio::const_buffer(buffer_.data() + consumed_, buffered_bytes()), ec);
    consumed_ += used;
    if (std::exchange(parser_->saw_chunk_header, false)) {
      // Every chunk needs its size in hexadecimal digits and two line ends; only what goes beyond
      // them is counted.
      parser_->framing_bytes += used - std::min(used, kPlainChunkHeaderBytes);
      if (check_framing(0) == State::kError) return State::kError;
    }
    waits_in_chunk_header_ =
        ec == http::error::need_more && parser.is_header_done() && parser.chunked();
    if (ec == http::error::need_more) {
      if (!parser.is_header_done() && buffered_bytes() > limits_.header_bytes) {
        return fail(431, "the request header is too large");
      }
      if (waits_in_chunk_header_) return check_framing(buffered_bytes());
      return State::kNeedMore;
    }
    if (ec) return fail(status_of(ec), fmt::format("malformed HTTP request: {}", ec.message()));
    if (used == 0) break;
  }
  if (!head_reported_ && parser.is_header_done()) return read_head();
  return parser.is_done() ? State::kComplete : State::kNeedMore;
}

// Counts `num_unfinished_bytes` of a chunk header that has not ended yet.
HttpRequestReader::State HttpRequestReader::check_framing(size_t num_unfinished_bytes) {
  const uint64_t framing_bytes = parser_->framing_bytes + num_unfinished_bytes -
                                 std::min(num_unfinished_bytes, kPlainChunkHeaderBytes);
  if (framing_bytes <= limits_.chunk_framing_bytes) return State::kNeedMore;
  return fail(431, fmt::format("expected chunk extensions and a trailer of at most {} bytes in all",
                               limits_.chunk_framing_bytes));
}

// RFC 9112, section 3.2: HTTP/1.1 names its host once.
bool HttpRequestReader::has_one_host() const {
  const auto num_hosts =
      std::count_if(request_.headers.begin(), request_.headers.end(),
                    [](const auto& field) { return equals_ignoring_case(field.first, "Host"); });
  return num_hosts == 1 || (num_hosts == 0 && request_.version == 10);
}

HttpRequestReader::State HttpRequestReader::read_head() {
  head_reported_ = true;
  const auto& message = parser_->impl.get();
  request_ = HttpRequest{};
  request_.version = static_cast<int>(message.version());
  if (request_.version != 10 && request_.version != 11) {
    return fail(505, "expected HTTP/1.0 or HTTP/1.1");
  }
  request_.method = std::string(message.method_string());
  request_.keep_alive = message.keep_alive();
  const auto num_fields = std::distance(message.begin(), message.end());
  if (num_fields > static_cast<std::ptrdiff_t>(limits_.header_fields)) {
    return fail(431, fmt::format("expected at most {} header fields, got {}", limits_.header_fields,
                                 num_fields));
  }
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  if (!has_one_host()) return fail(400, "expected one Host header field");
  if (const auto coding = request_.header("Transfer-Encoding");
      coding && !equals_ignoring_case(*coding, "chunked")) {
    return fail(501, "expected no Transfer-Encoding but chunked");
  }
  if (const auto coding = request_.header("Content-Encoding");
      coding && !coding->empty() && !equals_ignoring_case(*coding, "identity")) {
    return fail(415, "expected a body without Content-Encoding");
  }
  const auto target = message.target();
  if (request_.method == "OPTIONS" && target == "*") {
    request_.target = "*";
  } else if (!read_target({target.data(), target.size()}, request_)) {
    return fail(400, "expected a request target that begins with '/'");
  }
  const auto expect = request_.header("Expect");
  expects_continue_ =
      expect && request_.version == 11 && equals_ignoring_case(*expect, "100-continue");
  if (expect && !expects_continue_ && request_.version == 11) {
    return fail(417, "the only supported expectation is 100-continue");
  }
  return State::kHeader;
}

HttpRequest HttpRequestReader::take() {
  QUIRE_CHECK(parser_ && parser_->impl.is_done(), "take() before the request is complete");
  request_.body = std::move(parser_->impl.get().body());
  parser_.reset();
  head_reported_ = false;
  expects_continue_ = false;
  waits_in_chunk_header_ = false;
  return std::move(request_);
}

}  // namespace quire::server
