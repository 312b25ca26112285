#include "server/files/batch_queue.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <filesystem>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "server/batch/batch_line.h"
#include "server/files/batch_answers.h"
#include "server/http/auth.h"
#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::string_view kPrefix = "batch_";
constexpr size_t kMaxBatches = 10'000;
constexpr uint64_t kMaxRecordBytes = 1 << 20;
// The priority of requests that name none, where the server schedules by priority: requests of
// waiting clients go first.
constexpr int32_t kPriority = 1'000'000;

int64_t now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

Result<std::unique_ptr<BatchQueue>> BatchQueue::open(Options options) {
  auto files = FileStore::open(options.dir, {.max_bytes = options.files_bytes});
  if (!files.ok()) return files.status().with_context("--files-dir");
  std::unique_ptr<BatchQueue> queue(new BatchQueue(std::move(files).value(), std::move(options)));
  queue->load();
  return queue;
}

void BatchQueue::load() {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || entry.path().extension() != ".json") continue;
    const Result<std::string> text = read_file(entry.path().string(), kMaxRecordBytes);
    const Result<json::value> value =
        text.ok() ? parse_json(*text, 8) : Result<json::value>(text.status());
    Result<BatchJob> job =
        value.ok() ? parse_batch_record(*value) : Result<BatchJob>(value.status());
    if (!job.ok() || job->id != entry.path().stem().string()) {
      log_warn("{}: expected a batch, got something else; left alone", entry.path().string());
      continue;
    }
    const std::string id = job->id;
    jobs_.insert_or_assign(id, std::move(job).value());
  }
}

void BatchQueue::start() {
  thread_ = std::thread([this] { run(); });
}

void BatchQueue::begin_stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void BatchQueue::stop() {
  begin_stop();
  if (thread_.joinable()) thread_.join();
}

std::string BatchQueue::path_of(std::string_view id, std::string_view suffix) const {
  return fmt::format("{}/{}{}", options_.dir, id, suffix);
}

ApiResult<BatchJob> BatchQueue::add(BatchJob job) {
  job.id = std::string(kPrefix) + random_id();
  {
    const std::lock_guard lock(mutex_);
    const bool is_full = jobs_.size() >= kMaxBatches;
    // The oldest batch that has ended is removed to make room.
    const auto oldest = std::ranges::min_element(jobs_, {}, [](const auto& entry) {
      return std::pair(!has_ended(entry.second.status), entry.second.created_s);
    });
    if (is_full && !has_ended(oldest->second.status))
      return api_error(429, fmt::format("{} batches wait to be answered", kMaxBatches));
    if (is_full) {
      std::error_code ignored;
      fs::remove(path_of(oldest->first, ".json"), ignored);
      jobs_.erase(oldest);
    }
  }
  const Status written = write_file(path_of(job.id, ".json"), json::serialize(batch_record(job)));
  if (!written.ok()) return from_status(written);
  const std::lock_guard lock(mutex_);
  jobs_[job.id] = job;
  changed_.notify_all();
  return job;
}

std::optional<BatchJob> BatchQueue::find(std::string_view id, std::string_view owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.owner != owner) return std::nullopt;
  return found->second;
}

std::vector<BatchJob> BatchQueue::list(std::string_view owner) const {
  std::vector<BatchJob> mine;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, job] : jobs_) {
    if (job.owner == owner) mine.push_back(job);
  }
  std::ranges::sort(mine, {}, [](const BatchJob& j) { return std::pair(j.created_s, j.id); });
  return mine;
}

std::optional<BatchJob> BatchQueue::cancel(std::string_view id, std::string_view owner) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.owner != owner) return std::nullopt;
  BatchJob& job = found->second;
  if (!has_ended(job.status) && job.status != BatchStatus::kCancelling) {
    job.status = BatchStatus::kCancelling;
    job.cancelling_s = now_s();
    const Status written = write_file(path_of(id, ".json"), json::serialize(batch_record(job)));
    if (!written.ok()) log_warn("{}", written.message());
    changed_.notify_all();
  }
  return job;
}

void BatchQueue::save(const BatchJob& job) {
  const std::lock_guard lock(mutex_);
  BatchJob& shown = jobs_[job.id];
  const bool was_cancelled = shown.status == BatchStatus::kCancelling && !has_ended(job.status);
  const int64_t cancelling_s = shown.cancelling_s;
  shown = job;
  shown.cancelling_s = cancelling_s;
  if (was_cancelled) shown.status = BatchStatus::kCancelling;
  const Status written = write_file(path_of(job.id, ".json"), json::serialize(batch_record(shown)));
  if (!written.ok()) log_warn("{}", written.message());
}

bool BatchQueue::must_stop(const std::string& id, int64_t expires_s) const {
  const std::lock_guard lock(mutex_);
  return stopping_ || jobs_.at(id).status == BatchStatus::kCancelling || now_s() >= expires_s;
}

void BatchQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto age = [](const auto& entry) {
      return std::tuple(has_ended(entry.second.status), entry.second.created_s, entry.first);
    };
    const auto next = std::ranges::min_element(jobs_, {}, age);
    if (stopping_) return;
    if (next == jobs_.end() || has_ended(next->second.status)) {
      changed_.wait(lock);
      continue;
    }
    const BatchJob job = next->second;
    lock.unlock();
    run_one(job);
    lock.lock();
  }
}

void BatchQueue::run_one(BatchJob job) {
  if (job.started_s == 0 && job.status != BatchStatus::kCancelling) {
    job.errors =
        check_batch_input(files_->path_of(job.input_file_id), job.endpoint, job.num_requests);
    if (!job.errors.empty()) return end(std::move(job), BatchStatus::kFailed);
    job.started_s = now_s();
    job.status = BatchStatus::kInProgress;
    save(job);
  }
  if (job.started_s != 0) {
    const Status answered = answer_all(job);
    const std::lock_guard lock(mutex_);
    // When the server stops, or its engine has failed, the next start of the server continues the
    // batch.
    if (stopping_ || !options_.is_alive()) {
      stopping_ = true;
      return;
    }
    if (!answered.ok()) {
      job.errors.push_back(json::object{{"code", "server_error"},
                                        {"message", answered.message()},
                                        {"line", nullptr},
                                        {"param", nullptr}});
    }
  }
  const std::optional<BatchJob> shown = find(job.id, job.owner);
  const bool is_cancelled = shown && shown->status == BatchStatus::kCancelling;
  const bool is_whole = job.num_completed + job.num_failed >= job.num_requests;
  const BatchStatus status = !job.errors.empty() ? BatchStatus::kFailed
                             : is_cancelled      ? BatchStatus::kCancelled
                             : is_whole          ? BatchStatus::kCompleted
                                                 : BatchStatus::kExpired;
  end(std::move(job), status);
}

Status BatchQueue::answer_all(BatchJob& job) {
  BatchOptions options{.input = files_->path_of(job.input_file_id),
                       .output = path_of(job.id, ".jsonl"),
                       .max_concurrent = options_.concurrency};
  if (options_.has_priorities) options.priority = kPriority;
  options.is_stopped = [this, id = job.id, expires_s = job.expires_s] {
    return must_stop(id, expires_s);
  };
  options.on_counts = [this, id = job.id](const BatchCounts& counts) {
    const std::lock_guard lock(mutex_);
    BatchJob& shown = jobs_.at(id);
    shown.num_completed = counts.num_answered + counts.num_kept;
    shown.num_failed = counts.num_failed;
  };
  const Result<BatchCounts> counts = options_.run(options);
  if (!counts.ok()) return counts.status();
  job.num_completed = counts->num_answered + counts->num_kept;
  job.num_failed = counts->num_failed;
  return {};
}

void BatchQueue::end(BatchJob job, BatchStatus status) {
  const std::string answers = path_of(job.id, ".jsonl");
  std::error_code ignored;
  if (fs::exists(answers, ignored)) {
    const auto adopt = [&](const std::string& path, std::string_view what, std::string& id) {
      if (fs::file_size(path, ignored) == 0) return;
      const Result<FileInfo> file =
          files_->adopt({.owner = job.owner,
                         .purpose = "batch_output",
                         .filename = fmt::format("{}_{}.jsonl", job.id, what),
                         .created_s = now_s()},
                        path);
      if (file.ok()) id = file->id;
      if (!file.ok()) log_warn("{}: {}", job.id, file.status().message());
    };
    const std::string good = path_of(job.id, ".output.tmp"), bad = path_of(job.id, ".error.tmp");
    const Status split = split_batch_answers(answers, good, bad);
    if (split.ok()) {
      adopt(good, "output", job.output_file_id);
      adopt(bad, "error", job.error_file_id);
      fs::remove(answers, ignored);
    } else {
      log_warn("{}: {}", job.id, split.message());
    }
    fs::remove(good, ignored);
    fs::remove(bad, ignored);
  }
  job.status = status;
  job.ended_s = now_s();
  save(job);
}

}  // namespace quire::server
