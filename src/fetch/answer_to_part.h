// AnswerToPart appends the answer to a request for a file, or for the rest of it, to the part that
// is already there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fetch/partial_file.h"
#include "net/exchange.h"

namespace quire::fetch {

// Returns the headers that ask for the bytes that `part` lacks, or for the whole file if it has
// changed.
net::HeaderList headers_for(const PartialFile& part);

class AnswerToPart final : public net::AnswerSink {
 public:
  // The arguments must outlive this object. `check_room` is called with the number of bytes that
  // will come.
  AnswerToPart(const net::Url& url, PartialFile& part,
               const std::function<Status(uint64_t)>& check_room)
      : url_(url), part_(part), check_room_(check_room) {}

  Status on_head(const net::AnswerHead& head) override;
  Status on_body(std::string_view piece) override;
  // Returns where the file is instead; empty: the answer had the file.
  const std::string& redirect() const { return redirect_; }

 private:
  Status take_whole(const net::AnswerHead& head);
  Status take_rest(const net::AnswerHead& head);
  Status take_nothing_more(const net::AnswerHead& head);

  const net::Url& url_;
  PartialFile& part_;
  const std::function<Status(uint64_t)>& check_room_;
  std::string redirect_;
  bool is_wanted_ = false;  // the body belongs to the file; other bodies are skipped
  uint64_t num_ignored_ = 0;
};

bool is_redirect(int status);

// The range of a Content-Range header, "bytes FIRST-LAST/TOTAL", where TOTAL may be *.
// kInvalidArgument: the text has another form, or LAST is below FIRST or not below TOTAL.
struct ContentRange {
  uint64_t first = 0, last = 0;
};
Result<ContentRange> parse_content_range(std::string_view text);

}  // namespace quire::fetch
