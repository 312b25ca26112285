// A Heap limits what a rendering may use, and an Error ends a rendering. Inside this folder errors
// are exceptions, because an expression evaluator needs them at every step; chat_template.cc
// catches them all.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace quire::jinja {

// An Error ends a parse or a rendering. `line` is set when the error passes the statement or
// expression that it belongs to.
struct Error {
  Status status;
  int line = 0;
  bool from_template = false;  // raise_exception(): the message goes to the client as it is
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error{
      Status(StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...))};
}

template <typename... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw Error{Status(StatusCode::kTooLarge, fmt::format(format, std::forward<Args>(args)...))};
}

// A Heap counts the steps and the live bytes of one rendering. One thread uses it, and it must
// outlive every value made with it.
class Heap {
 public:
  Heap(int64_t max_steps, int64_t max_bytes) : steps_left_(max_steps), bytes_left_(max_bytes) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // One evaluation is one step. Work on text or lists takes steps in proportion to its size.
  void tick(int64_t steps = 1) {
    if ((steps_left_ -= steps) < 0) fail_limit("the template takes too many steps");
  }
  void tick_bytes(size_t bytes) { tick(1 + static_cast<int64_t>(bytes / 64)); }

  void take(int64_t bytes) {
    if (bytes > bytes_left_) fail_limit("the template uses too much memory");
    bytes_left_ -= bytes;
  }
  void give_back(int64_t bytes) { bytes_left_ += bytes; }

  // Fails if a large piece of work has no room. It is called before the work and takes nothing
  // itself.
  void check_room(uint64_t bytes) const {
    if (bytes > static_cast<uint64_t>(bytes_left_)) fail_limit("the template uses too much memory");
  }

 private:
  int64_t steps_left_;
  int64_t bytes_left_;
};

}  // namespace quire::jinja
