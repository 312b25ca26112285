// BatchQueue answers batches beside the requests of clients: one batch after another, on a thread
// of its own, through the code of `quire run-batch`. Batches and their answers are stored in files,
// so that a restarted server continues them.
//
//   DIR/batch_<id>.json    the batch
//   DIR/batch_<id>.jsonl   the answers of a running batch
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

// Any thread may call these methods.
class BatchQueue {
 public:
  struct Options {
    std::string dir;
    int64_t files_bytes = 0;
    int32_t concurrency = 1;
    bool has_priorities = false;  // the scheduler uses priorities
    // Answers the requests of one batch.
    std::function<Result<BatchCounts>(const BatchOptions& batch)> run;
    // Returns false when the engine has failed, so that running batches get no more answers.
    std::function<bool()> is_alive;
  };
  // No batch runs before start().
  static Result<std::unique_ptr<BatchQueue>> open(Options options);
  // Waits for requests that are running. The answers so far are kept.
  ~BatchQueue() { stop(); }

  void start();
  // Starts no further requests. The running batch continues when the server is started again.
  void begin_stop();
  void stop();

  FileStore& files() { return *files_; }

  // Adds a `job` whose endpoint, input file, owner, times and metadata are set.
  ApiResult<BatchJob> add(BatchJob job);
  std::optional<BatchJob> find(std::string_view id, std::string_view owner) const;
  // Returns the batches of an owner, the oldest first.
  std::vector<BatchJob> list(std::string_view owner) const;
  // Cancels a batch and returns it; nullopt: there is no such batch.
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
  // Stores the job in its file and in jobs_. A cancellation that came in between is kept.
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
