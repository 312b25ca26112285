#include "server/keys/key_book.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "base/text_fields.h"
#include "server/http/auth.h"
#include "server/http/metrics_text.h"

namespace quire::server {
namespace {

constexpr std::array<std::string_view, 3> kLimitNames = {"requests", "tokens", "concurrency"};
constexpr size_t kMaxFileBytes = size_t{4} << 20;

void add_headers(std::string_view what, const RateBucket* bucket, HeaderList& headers) {
  if (bucket == nullptr) return;
  headers.emplace_back(fmt::format("x-ratelimit-limit-{}", what),
                       std::to_string(bucket->per_minute()));
  headers.emplace_back(fmt::format("x-ratelimit-remaining-{}", what),
                       std::to_string(bucket->remaining()));
  headers.emplace_back(fmt::format("x-ratelimit-reset-{}", what),
                       duration_text(bucket->us_to_full()));
}

std::string refusal_text(const KeySpec& spec, const KeyLimiter::Refusal& refusal) {
  const KeyLimits& limits = spec.limits;
  switch (refusal.limit) {
    case KeyLimit::kRequests:
      return fmt::format("the key {} may ask {} requests per minute; try again in {}",
                         in_quotes(spec.name), *limits.requests_per_minute,
                         duration_text(refusal.wait_us));
    case KeyLimit::kTokens:
      return fmt::format("the key {} may use {} tokens per minute; try again in {}",
                         in_quotes(spec.name), *limits.tokens_per_minute,
                         duration_text(refusal.wait_us));
    case KeyLimit::kConcurrency:
      break;
  }
  return fmt::format("the key {} may have {} requests under way at once", in_quotes(spec.name),
                     *limits.max_concurrent);
}

}  // namespace

std::string duration_text(int64_t us) {
  const int64_t ms = (us + 999) / 1000;
  if (ms < 1000) return fmt::format("{}ms", ms);
  const double seconds = static_cast<double>(ms % 60'000) / 1000;
  return ms < 60'000 ? fmt::format("{:g}s", seconds)
                     : fmt::format("{}m{:g}s", ms / 60'000, seconds);
}

KeyAccount::KeyAccount(KeySpec spec, int64_t now_us)
    : spec_(std::move(spec)), limiter_(spec_.limits, now_us) {}

ApiResult<std::shared_ptr<KeyUse>> KeyAccount::enter(int64_t now_us, HeaderList& headers) {
  const std::lock_guard lock(mutex_);
  const std::optional<KeyLimiter::Refusal> refusal = limiter_.enter(now_us);
  add_headers("requests", limiter_.requests(), headers);
  add_headers("tokens", limiter_.tokens(), headers);
  if (!refusal) {
    ++counts_.requests;
    return std::make_shared<KeyUse>(shared_from_this());
  }
  ++counts_.refused[static_cast<size_t>(refusal->limit)];
  ApiError error = api_error(429, refusal_text(spec_, *refusal));
  error.retry_after_s = std::max<int64_t>((refusal->wait_us + 999'999) / 1'000'000, 1);
  return error;
}

std::optional<int32_t> KeyAccount::priority() const {
  const std::lock_guard lock(mutex_);
  return spec_.priority;
}

void KeyAccount::set(KeySpec spec, int64_t now_us) {
  const std::lock_guard lock(mutex_);
  spec_ = std::move(spec);
  limiter_.set_limits(spec_.limits, now_us);
}

KeyAccount::Counts KeyAccount::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.name = spec_.name;
  counts.running = limiter_.num_running();
  return counts;
}

KeyUse::~KeyUse() {
  const std::lock_guard lock(account_->mutex_);
  account_->limiter_.leave();
}

void KeyUse::charge(Kind kind, int64_t num_tokens, int64_t now_us) {
  const std::lock_guard lock(account_->mutex_);
  KeyAccount::Counts& counts = account_->counts_;
  (kind == kPrompt ? counts.prompt_tokens : counts.output_tokens) +=
      static_cast<uint64_t>(num_tokens);
  account_->limiter_.charge_tokens(num_tokens, now_us);
}

Result<std::unique_ptr<KeyBook>> KeyBook::open(const std::string& path, bool has_priorities,
                                               int64_t now_us) {
  std::unique_ptr<KeyBook> book(new KeyBook(path, has_priorities));
  QUIRE_RETURN_IF_ERROR(book->reload(now_us));
  return book;
}

Status KeyBook::reload(int64_t now_us) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, quire::read_text(path_, kMaxFileBytes));
  Result<std::vector<KeySpec>> specs = parse_key_file(text);
  if (!specs.ok()) return specs.status().with_context(path_);
  const auto ranked =
      std::ranges::find_if(*specs, [](const KeySpec& spec) { return spec.priority.has_value(); });
  if (ranked != specs->end() && !has_priorities_) {
    return invalid_argument(
        "{}: the key {} has a priority, which needs --scheduling-policy priority", path_,
        in_quotes(ranked->name));
  }
  const std::lock_guard lock(mutex_);
  std::unordered_map<std::string, std::shared_ptr<KeyAccount>> by_digest, by_name;
  for (KeySpec& spec : *specs) {
    const auto known = by_name_.find(spec.name);
    std::shared_ptr<KeyAccount> account = known == by_name_.end() ? nullptr : known->second;
    if (account == nullptr) {
      account = std::make_shared<KeyAccount>(spec, now_us);
    } else {
      account->set(spec, now_us);
    }
    by_digest[spec.digest] = account;
    by_name[spec.name] = std::move(account);
  }
  by_digest_ = std::move(by_digest);
  by_name_ = std::move(by_name);
  return {};
}

std::shared_ptr<KeyAccount> KeyBook::find(std::string_view key) const {
  const std::string digest = key_digest(key);
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  return found == by_digest_.end() ? nullptr : found->second;
}

std::string KeyBook::metrics_text() const {
  std::vector<KeyAccount::Counts> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, account] : by_name_) all.push_back(account->counts());
  }
  std::ranges::sort(all, {}, &KeyAccount::Counts::name);
  MetricsWriter out;
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          auto value_of) {
    out.family(name, type, help);
    for (const KeyAccount::Counts& key : all) {
      const MetricLabel label{"key", key.name};
      out.sample(name, {&label, 1}, static_cast<double>(value_of(key)));
    }
  };
  family("quire:key_requests_total", "counter", "Requests that a key's limits let through.",
         [](const auto& key) { return key.requests; });
  family("quire:key_prompt_tokens_total", "counter", "Prompt tokens of a key's requests.",
         [](const auto& key) { return key.prompt_tokens; });
  family("quire:key_output_tokens_total", "counter", "Tokens generated for a key.",
         [](const auto& key) { return key.output_tokens; });
  family("quire:key_requests_running", "gauge", "Requests of a key that are being answered.",
         [](const auto& key) { return key.running; });
  out.family("quire:key_refused_total", "counter", "Requests refused, by the limit of the key.");
  for (const KeyAccount::Counts& key : all) {
    for (size_t i = 0; i < kLimitNames.size(); ++i) {
      const std::array<MetricLabel, 2> labels = {MetricLabel{"key", key.name},
                                                 MetricLabel{"limit", std::string(kLimitNames[i])}};
      out.sample("quire:key_refused_total", labels, static_cast<double>(key.refused[i]));
    }
  }
  return out.take();
}

}  // namespace quire::server
