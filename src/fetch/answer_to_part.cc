#include "fetch/answer_to_part.h"

#include <charconv>

namespace quire::fetch {
namespace {

// Largest body that is skipped when it does not belong to the file.
constexpr uint64_t kMaxIgnoredBytes = 1 << 20;

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Returns a tag that differs between versions that differ in any byte (RFC 9110, section 13.1.5);
// empty: the answer has none.
std::string version_of(const net::AnswerHead& head) {
  const std::string_view tag = head.header("ETag");
  if (tag.starts_with('"')) return std::string(tag);
  return tag.empty() ? std::string(head.header("Last-Modified")) : std::string();
}

}  // namespace

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Result<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (text.starts_with(kUnit) && dash != text.npos && slash != text.npos && dash < slash) {
    const auto first = number(text.substr(kUnit.size(), dash - kUnit.size()));
    const auto last = number(text.substr(dash + 1, slash - dash - 1));
    const std::string_view total_text = text.substr(slash + 1);
    const auto total = number(total_text);
    const bool has_total = total || total_text == "*";
    if (first && last && *first <= *last && has_total && (!total || *last < *total))
      return ContentRange{*first, *last};
  }
  return invalid_argument("expected a Content-Range of bytes, got {}", text.substr(0, 100));
}

net::HeaderList headers_for(const PartialFile& part) {
  net::HeaderList headers = {{"Accept-Encoding", "identity"}};
  if (part.size_bytes() == 0) return headers;
  headers.emplace_back("Range", fmt::format("bytes={}-", part.size_bytes()));
  if (!part.version().empty()) headers.emplace_back("If-Range", part.version());
  return headers;
}

Status AnswerToPart::on_head(const net::AnswerHead& head) {
  if (is_redirect(head.status)) {
    redirect_ = head.header("Location");
    if (!redirect_.empty()) return {};
    return unavailable("{}: expected a Location beside status {}, got none", url_.text(),
                       head.status);
  }
  const std::string_view encoding = head.header("Content-Encoding");
  if (!encoding.empty() && encoding != "identity")
    return invalid_argument("{}: expected the file as it is, got it as {}", url_.text(), encoding);
  if (head.status == 200) return take_whole(head);
  if (head.status == 206) return take_rest(head);
  if (head.status == 416 && part_.size_bytes() > 0) return take_nothing_more(head);
  if (head.status == 408 || head.status == 429)
    return unavailable("{}: status {}", url_.text(), head.status);
  return net::status_error(url_, head.status);
}

Status AnswerToPart::take_whole(const net::AnswerHead& head) {
  QUIRE_RETURN_IF_ERROR(part_.begin(version_of(head)));
  is_wanted_ = true;
  return head.length && check_room_ ? check_room_(*head.length) : Status();
}

Status AnswerToPart::take_rest(const net::AnswerHead& head) {
  const Result<ContentRange> range = parse_content_range(head.header("Content-Range"));
  if (!range.ok()) return range.status().with_context(url_.text());
  if (range->first != part_.size_bytes())
    return invalid_argument("{}: expected the bytes from {} on, got those from {} on", url_.text(),
                            part_.size_bytes(), range->first);
  is_wanted_ = true;
  return check_room_ ? check_room_(range->last - range->first + 1) : Status();
}

// The server says that the file has no bytes after those that are here: they are the whole file, or
// the file has changed.
Status AnswerToPart::take_nothing_more(const net::AnswerHead& head) {
  if (head.header("Content-Range") == fmt::format("bytes */{}", part_.size_bytes())) return {};
  QUIRE_RETURN_IF_ERROR(part_.begin({}));
  return unavailable("{}: it has become shorter than what was got of it", url_.text());
}

Status AnswerToPart::on_body(std::string_view piece) {
  if (is_wanted_) return part_.append(piece);
  num_ignored_ += piece.size();
  if (num_ignored_ <= kMaxIgnoredBytes) return {};
  return unavailable("{}: its answer does not end", url_.text());
}

}  // namespace quire::fetch
