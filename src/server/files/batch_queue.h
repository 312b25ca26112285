// Batches that the server answers beside its clients: one after another, on a thread of its own,
// through the code of `quire run-batch`. They and their answers are in files, so that a server that
// starts again goes on with them.
//
//   DIR/batch_<id>.json    the batch
//   DIR/batch_<id>.jsonl   answers of one that runs
#pragma once

#include <boost/json/object.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/batch/batch_options.h"
#include "server/files/batch_job.h"
#include "server/files/file_store.h"
#include "server/http/api_error.h"

namespace quire::server {

// Any thread may call it.
class BatchQueue {
 public:
  struct Options {
    std::string dir;
    int64_t files_bytes = 0;
    int32_t concurrency = 1;
    bool has_priorities = false;  // of the server's scheduler
    // Answers one batch.
    std::function<Result<BatchCounts>(const BatchOptions& batch)> run;
    // False: the engine has died, and no more comes of running batches.
    std::function<bool()> is_alive;
  };
  // Nothing runs before start().
  static Result<std::unique_ptr<BatchQueue>> open(Options options);
  // Waits for requests that are under way; what was answered stays.
  ~BatchQueue() { stop(); }

  void start();
  // No further request is begun. The batch that runs goes on when the server starts again.
  void begin_stop();
  void stop();

  FileStore& files() { return *files_; }

  // Adds a `job` that has endpoint, input file, owner, times and metadata.
  ApiResult<BatchJob> add(BatchJob job);
  std::optional<BatchJob> find(std::string_view id, std::string_view owner) const;
  // Oldest first.
  std::vector<BatchJob> list(std::string_view owner) const;
  // The batch as it is then; nullopt: there is none.
  std::optional<BatchJob> cancel(std::string_view id, std::string_view owner);

 private:
  BatchQueue(std::unique_ptr<FileStore> files, Options options)
      : options_(std::move(options)), files_(std::move(files)) {}
  void load();
  void run();
  void run_one(BatchJob job);
  Status answer_all(BatchJob& job);
  void end(BatchJob job, BatchStatus status);
  bool must_stop(const std::string& id, int64_t expires_s) const;
  // Writes it down and shows it, but for a cancellation that came meanwhile.
  void save(const BatchJob& job);
  std::string path_of(std::string_view id, std::string_view suffix) const;

  const Options options_;
  std::unique_ptr<FileStore> files_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, BatchJob, std::less<>> jobs_;  // by id
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire::server
