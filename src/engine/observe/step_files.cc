#include "engine/observe/step_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

namespace quire {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;

Status cannot_write(const std::string& path) {
  return invalid_argument("{}: expected a file that can be written: {}", path,
                          std::strerror(errno));
}

// Collects text and writes it in large pieces. After a failed write it writes nothing more: the
// engine must not stop for a full disk.
class BufferedFile {
 public:
  // `ending` is written when the file is closed.
  static Result<std::shared_ptr<BufferedFile>> open(const std::string& path,
                                                    std::string_view ending = {}) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return cannot_write(path);
    return std::shared_ptr<BufferedFile>(new BufferedFile(file, ending));
  }
  ~BufferedFile() {
    text_ += ending_;
    flush();
  }
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  // Callers append here, then call written().
  std::string& text() { return text_; }
  void written() {
    if (text_.size() >= kBufferBytes) flush();
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  BufferedFile(std::FILE* file, std::string_view ending) : file_(file), ending_(ending) {
    text_.reserve(2 * kBufferBytes);
  }

  void flush() {
    if (!failed_) failed_ = std::fwrite(text_.data(), 1, text_.size(), file_.get()) != text_.size();
    text_.clear();
  }

  std::unique_ptr<std::FILE, Close> file_;
  std::string_view ending_;
  std::string text_;
  bool failed_ = false;
};

void append_event(std::string& out, std::string_view name, int thread, int64_t begin_us,
                  int64_t duration_us) {
  fmt::format_to(std::back_inserter(out),
                 ",\n{{\"name\": \"{}\", \"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {}, "
                 "\"dur\": {}}}",
                 name, thread, begin_us, duration_us);
}

void append_step_event(std::string& out, const MeasuredStep& step, const StepCost& cost) {
  fmt::format_to(
      std::back_inserter(out),
      ",\n{{\"name\": \"step\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": {}, \"dur\": {}, "
      "\"args\": {{\"step\": {}, \"tokens\": {}, \"requests\": {}, \"decodes\": {}, \"bound_us\": "
      "{:.1f}, \"predicted_us\": {:.1f}, \"binding\": \"{}\"}}}}",
      step.begin_us, step.total_us(), step.step_id, step.shape.num_tokens, step.shape.num_requests,
      step.shape.decode.num_requests, cost.bound_us, cost.total_us, to_string(cost.binding));
}

}  // namespace

Status check_step_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "ab");
  if (file == nullptr) return cannot_write(path);
  std::fclose(file);
  return {};
}

// Observers are copied, so the copies share the file.
Result<StepObserver> open_step_log(const std::string& path, const StepLogHeader& header) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<BufferedFile> file, BufferedFile::open(path));
  file->text() += format_header(header);
  return StepObserver([file](const MeasuredStep& step, const StepCost& cost) {
    append_step(file->text(), step, cost);
    file->written();
  });
}

Result<StepObserver> open_chrome_trace(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<BufferedFile> file,
                         BufferedFile::open(path, "\n]\n"));
  constexpr std::pair<int, std::string_view> kThreads[] = {
      {1, "steps"}, {2, "schedule, execute, update"}, {3, "bound"}};
  // If the process is killed, the closing bracket is missing; viewers accept that.
  file->text() += "[";
  for (const auto& [thread, name] : kThreads) {
    fmt::format_to(
        std::back_inserter(file->text()),
        "{}\n{{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": {}, \"args\": "
        "{{\"name\": \"{}\"}}}}",
        thread == 1 ? "" : ",", thread, name);
  }
  return StepObserver([file](const MeasuredStep& step, const StepCost& cost) {
    std::string& out = file->text();
    append_step_event(out, step, cost);
    const int64_t execute_begin = step.begin_us + step.schedule_us;
    append_event(out, "schedule", 2, step.begin_us, step.schedule_us);
    append_event(out, "execute", 2, execute_begin, step.execute_us);
    append_event(out, "update", 2, execute_begin + step.execute_us, step.update_us);
    if (cost.bound_us > 0) {
      append_event(out, to_string(cost.binding), 3, execute_begin,
                   static_cast<int64_t>(cost.bound_us));
    }
    file->written();
  });
}

}  // namespace quire
