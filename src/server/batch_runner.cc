#include "server/batch_runner.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "server/batch/batch_line.h"
#include "server/local_api.h"

namespace quire {
namespace {

using server::BatchRequest;
using server::HttpRequest;
using server::HttpResponse;
using server::LocalApi;

// A request that was refused because the engine's queue was full is sent again after this time.
constexpr auto kRetryAfter = std::chrono::milliseconds(100);

// AnswerFile is the file of answers. Each line is written at once and as a whole, so that an
// interrupted run loses no answer. A line that was cut off itself is ended before the next one.
class AnswerFile {
 public:
  // The ids whose requests need not be sent again are added to `answered`.
  Status open(const BatchOptions& options, std::unordered_set<std::string>& answered) {
    bool ends_with_line = true;
    std::error_code ignored;
    if (!options.overwrite && std::filesystem::is_regular_file(options.output, ignored)) {
      std::ifstream before(options.output, std::ios::binary);
      for (std::string line; std::getline(before, line);) {
        ends_with_line = !before.eof();
        if (std::string id = server::answered_id(line); !id.empty()) answered.insert(std::move(id));
      }
    }
    file_.reset(std::fopen(options.output.c_str(), options.overwrite ? "wb" : "ab"));
    if (file_ == nullptr) return invalid_argument("{}: cannot be written", options.output);
    return ends_with_line ? Status() : write("\n");
  }

  Status write(std::string_view line) {
    const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                         std::fflush(file_.get()) == 0;
    return written ? Status()
                   : unavailable("the output cannot be written any more: is the disk full?");
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

// BatchRun is one run. Answers come on the thread of the LocalApi.
class BatchRun {
 public:
  BatchRun(const BatchOptions& options, const ServerOptions& server,
           std::shared_ptr<server::ModelHost> models)
      : options_(options), models_(models), api_(server, std::move(models)) {}

  Result<BatchCounts> run() {
    std::error_code ignored;
    if (std::filesystem::equivalent(options_.input, options_.output, ignored))
      return invalid_argument("{}: expected another file for the answers", options_.output);
    std::ifstream input(options_.input, std::ios::binary);
    if (!input.is_open() || std::filesystem::is_directory(options_.input))
      return not_found("{}: cannot be read", options_.input);
    const auto total_bytes =
        static_cast<int64_t>(std::filesystem::file_size(options_.input, ignored));
    std::unordered_set<std::string> answered;
    QUIRE_RETURN_IF_ERROR(answers_.open(options_, answered));
    int64_t done_bytes = 0, line_number = 0;
    for (std::string line; std::getline(input, line);) {
      if (options_.is_stopped && options_.is_stopped()) break;
      ++line_number;
      done_bytes += static_cast<int64_t>(line.size()) + 1;
      if (line.find_first_not_of(" \t\r") != line.npos) take(line, line_number, answered);
      if (options_.on_progress)
        options_.on_progress(std::min(done_bytes, total_bytes), total_bytes);
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) break;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_open_ == 0; });
    QUIRE_RETURN_IF_ERROR(std::move(status_));
    return counts_;
  }

 private:
  void take(const std::string& line, int64_t line_number,
            const std::unordered_set<std::string>& answered) {
    auto request = std::make_shared<BatchRequest>();
    const Status parsed = server::parse_batch_request(line, *request);
    std::unique_lock lock(mutex_);
    ++counts_.num_requests;
    if (!parsed.ok()) {
      ++counts_.num_failed;
      note(answers_.write(server::batch_error(*request, line_number, parsed.message())));
      return;
    }
    if (answered.contains(request->custom_id)) {
      ++counts_.num_kept;
      return;
    }
    changed_.wait(lock, [this] { return num_open_ < options_.max_concurrent; });
    ++num_open_;
    lock.unlock();
    ask(request, line_number);
  }

  void ask(const std::shared_ptr<const BatchRequest>& request, int64_t line_number) {
    HttpRequest http{.method = "POST",
                     .path = request->url,
                     .headers = {{"Content-Type", "application/json"}},
                     .body = request->body};
    if (options_.priority)
      http.headers.emplace_back("X-Vllm-Priority", std::to_string(*options_.priority));
    api_.call(std::move(http), [this, request, line_number](HttpResponse response) {
      const bool is_full = response.status == 429 && models_->healthy();
      const bool goes_on = !options_.is_stopped || !options_.is_stopped();
      if (is_full && goes_on) {
        std::this_thread::sleep_for(kRetryAfter);
        return ask(request, line_number);
      }
      const std::lock_guard lock(mutex_);
      if (!is_full) {
        response.status == 200 ? ++counts_.num_answered : ++counts_.num_failed;
        note(answers_.write(server::batch_answer(*request, line_number, response)));
        if (options_.on_counts) options_.on_counts(counts_);
      }
      if (!models_->healthy()) note(unavailable("the engine has failed; see the log"));
      --num_open_;
      changed_.notify_all();
    });
  }

  // Keeps the first error only.
  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const BatchOptions& options_;
  const std::shared_ptr<server::ModelHost> models_;
  std::mutex mutex_;
  std::condition_variable changed_;
  AnswerFile answers_;  // guarded by mutex_, as all members below
  BatchCounts counts_;
  Status status_;
  int32_t num_open_ = 0;
  LocalApi api_;  // destroyed before the members that its answers use
};

}  // namespace

Result<BatchCounts> run_batch(const BatchOptions& options, const ServerOptions& server,
                              std::shared_ptr<server::ModelHost> models) {
  if (options.max_concurrent < 1)
    return invalid_argument("expected at least 1 request at once, got {}", options.max_concurrent);
  return BatchRun(options, server, std::move(models)).run();
}

Result<BatchCounts> run_batch(const BatchOptions& options, const ServerOptions& server,
                              ServedModel model) {
  return run_batch(options, server, server::host_one_model(std::move(model), server));
}

}  // namespace quire
