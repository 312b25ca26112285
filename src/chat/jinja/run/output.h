// Output takes the text of a rendering: for the prompt, or for a block that is captured.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "chat/jinja/value/heap.h"
#include "chat/jinja/value/print.h"
#include "chat/jinja/value/value.h"

namespace quire::jinja {

// A Buffer is a text that grows. It charges the heap as long as it lives.
class Buffer {
 public:
  explicit Buffer(Heap& heap) : heap_(heap) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { heap_.give_back(static_cast<int64_t>(text_.size())); }
  void append(std::string_view text) {
    heap_.take(static_cast<int64_t>(text.size()));
    heap_.tick_bytes(text.size());
    text_ += text;
  }
  const std::string& text() const { return text_; }

 private:
  Heap& heap_;
  std::string text_;
};

class Output {
 public:
  Output(Heap& heap, int64_t max_bytes) : heap_(heap), max_bytes_(max_bytes) {}

  void write(std::string_view text) {
    if (capture_ != nullptr) return capture_->append(text);
    heap_.tick_bytes(text.size());
    if (text.size() > static_cast<uint64_t>(max_bytes_) - text_.size()) {
      fail_limit("the rendered text exceeds {} bytes", max_bytes_);
    }
    text_ += text;
  }
  void print(const Value& value) {
    if (value.is_string()) return write(value.text());
    write(to_str(heap_, value));
  }
  std::string take() { return std::move(text_); }

  // While a Capture lives, or until end(), text is written to it instead.
  class Capture {
   public:
    explicit Capture(Output& output)
        : output_(output),
          buffer_(output.heap_),
          saved_(std::exchange(output.capture_, &buffer_)) {}
    ~Capture() { end(); }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    // Returns the text that was written to it.
    const std::string& end() {
      output_.capture_ = saved_;
      return buffer_.text();
    }

   private:
    Output& output_;
    Buffer buffer_;
    Buffer* const saved_;
  };

 private:
  Heap& heap_;
  const int64_t max_bytes_;
  std::string text_;
  Buffer* capture_ = nullptr;
};

}  // namespace quire::jinja
