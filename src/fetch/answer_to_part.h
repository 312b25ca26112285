// What the answer to a request for a file, or for the rest of it, does to the part that is there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fetch/partial_file.h"
#include "net/exchange.h"

namespace quire::fetch {

// Returns the headers that ask for what `part` lacks, and for all of it where the file has changed.
net::HeaderList headers_for(const PartialFile& part);

class AnswerToPart final : public net::AnswerSink {
 public:
  // All are borrowed. `check_room` is asked for the bytes that are to come.
  AnswerToPart(const net::Url& url, PartialFile& part,
               const std::function<Status(uint64_t)>& check_room)
      : url_(url), part_(part), check_room_(check_room) {}

  Status on_head(const net::AnswerHead& head) override;
  Status on_body(std::string_view piece) override;
  // Where the file is instead; empty: it was here.
  const std::string& redirect() const { return redirect_; }

 private:
  Status take_whole(const net::AnswerHead& head);
  Status take_rest(const net::AnswerHead& head);
  Status take_nothing_more(const net::AnswerHead& head);

  const net::Url& url_;
  PartialFile& part_;
  const std::function<Status(uint64_t)>& check_room_;
  std::string redirect_;
  bool is_wanted_ = false;  // the body; that of others is read over
  uint64_t num_ignored_ = 0;
};

bool is_redirect(int status);

// "bytes FIRST-LAST/TOTAL" of a Content-Range header; TOTAL may be *. kInvalidArgument: it is written
// otherwise, or LAST lies before FIRST or behind TOTAL.
struct ContentRange {
  uint64_t first = 0, last = 0;
};
Result<ContentRange> parse_content_range(std::string_view text);

}  // namespace quire::fetch
