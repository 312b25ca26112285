#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "fetch/answer_to_part.h"
#include "fetch/origin.h"

namespace quire::fetch {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMaxRetryDelayMs = 15'000;
const std::pair<std::string, std::string> kAsItIs = {"Accept-Encoding", "identity"};

// SmallAnswer keeps a whole answer in memory.
class SmallAnswer final : public net::AnswerSink {
 public:
  explicit SmallAnswer(size_t max_bytes) : max_bytes_(max_bytes) {}
  Status on_head(const net::AnswerHead& head) override {
    head_ = head;
    return {};
  }
  Status on_body(std::string_view piece) override {
    if (text_.size() + piece.size() > max_bytes_)
      return too_large("expected at most {} bytes, got more", max_bytes_);
    text_ += piece;
    return {};
  }
  const net::AnswerHead& head() const { return head_; }
  // Returns the address to ask instead; empty: this is the answer itself.
  std::string redirect() const {
    return is_redirect(head_.status) ? std::string(head_.header("Location")) : std::string();
  }
  std::string take() { return std::move(text_); }

 private:
  const size_t max_bytes_;
  net::AnswerHead head_;
  std::string text_;
};

class RemoteOrigin final : public Origin {
 public:
  RemoteOrigin(net::Url folder, RemoteOptions options)
      : folder_(std::move(folder)), options_(std::move(options)) {}

  std::string place_of(const std::string& name) const override { return url_of(name).text(); }
  std::optional<uint64_t> size_of(const std::string& name) override;
  Status fetch(const std::string& name, PartialFile& part) override;
  Result<std::string> text(const std::string& name, size_t max_bytes) override;

 private:
  net::Url url_of(const std::string& name) const;
  // Calls `attempt` with the address, and then with each address to which it is redirected.
  // `attempt` sets the next address, or leaves it empty once it has its answer.
  template <typename Attempt>
  Status follow(net::Url url, Attempt attempt) const;
  template <typename Attempt>
  Status with_retries(Attempt attempt) const;
  Status wait(int64_t delay_ms) const;

  const net::Url folder_;
  const RemoteOptions options_;
};

net::Url RemoteOrigin::url_of(const std::string& name) const {
  net::Url url = folder_;
  const std::string path(folder_.path());
  url.target = path + net::percent_encoded(name) + folder_.target.substr(path.size());
  return url;
}

template <typename Attempt>
Status RemoteOrigin::follow(net::Url url, Attempt attempt) const {
  for (int num_redirects = 0;; ++num_redirects) {
    std::string redirect;
    QUIRE_RETURN_IF_ERROR(attempt(url, redirect));
    if (redirect.empty()) return {};
    if (num_redirects == options_.max_redirects)
      return invalid_argument("{}: expected at most {} redirects, got more", url.text(),
                              options_.max_redirects);
    const Result<net::Url> next = net::resolve(url, redirect);
    if (!next.ok()) return next.status().with_context(url.text());
    if (url.is_encrypted && !next->is_encrypted)
      return invalid_argument("{}: expected a redirect to https, got {}", url.text(), next->text());
    url = *next;
  }
}

// `attempt` sets its argument when new bytes have come.
template <typename Attempt>
Status RemoteOrigin::with_retries(Attempt attempt) const {
  for (int num_failed = 0;;) {
    bool got_further = false;
    Status status = attempt(got_further);
    if (status.code() != StatusCode::kUnavailable) return status;
    num_failed = got_further ? 1 : num_failed + 1;
    if (num_failed > options_.max_retries) return status;
    const int64_t delay_ms =
        std::min(options_.retry_delay_ms << std::min(num_failed - 1, 10), kMaxRetryDelayMs);
    if (options_.on_retry) {
      options_.on_retry(fmt::format("{}; trying again in {} ms", status.message(), delay_ms));
    }
    QUIRE_RETURN_IF_ERROR(wait(delay_ms));
  }
}

Status RemoteOrigin::wait(int64_t delay_ms) const {
  const auto& is_stopped = options_.exchange.is_stopped;
  const auto end = std::chrono::steady_clock::now() + milliseconds(delay_ms);
  while (std::chrono::steady_clock::now() < end) {
    if (is_stopped && is_stopped()) return cancelled("stopped");
    std::this_thread::sleep_for(milliseconds(20));
  }
  return {};
}

std::optional<uint64_t> RemoteOrigin::size_of(const std::string& name) {
  std::optional<uint64_t> size;
  const Status status = follow(url_of(name), [&](const net::Url& url, std::string& redirect) {
    SmallAnswer answer(0);
    QUIRE_RETURN_IF_ERROR(
        net::exchange(url, {.method = "HEAD", .headers = {kAsItIs}}, options_.exchange, answer));
    redirect = answer.redirect();
    if (answer.head().status == 200) size = answer.head().length;
    return Status();
  });
  return status.ok() ? size : std::nullopt;
}

Status RemoteOrigin::fetch(const std::string& name, PartialFile& part) {
  return with_retries([&](bool& got_further) {
    const uint64_t before = part.size_bytes();
    const Status status = follow(url_of(name), [&](const net::Url& url, std::string& redirect) {
      AnswerToPart answer(url, part, options_.check_room);
      const Status exchanged =
          net::exchange(url, {.headers = headers_for(part)}, options_.exchange, answer);
      redirect = answer.redirect();
      return exchanged;
    });
    got_further = part.size_bytes() > before;
    return status;
  });
}

Result<std::string> RemoteOrigin::text(const std::string& name, size_t max_bytes) {
  std::string text;
  QUIRE_RETURN_IF_ERROR(with_retries([&](bool&) {
    return follow(url_of(name), [&](const net::Url& url, std::string& redirect) -> Status {
      SmallAnswer answer(max_bytes);
      const Status exchanged =
          net::exchange(url, {.headers = {kAsItIs}}, options_.exchange, answer);
      if (!exchanged.ok()) return exchanged.with_context(url.text());
      redirect = answer.redirect();
      if (redirect.empty() && answer.head().status != 200)
        return net::status_error(url, answer.head().status);
      text = answer.take();
      return {};
    });
  }));
  return text;
}

}  // namespace

std::unique_ptr<Origin> remote_origin(net::Url folder, RemoteOptions options) {
  return std::make_unique<RemoteOrigin>(std::move(folder), std::move(options));
}

}  // namespace quire::fetch
