#include "transfer/kv_file_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"

namespace quire {
namespace {

class KvFileStore final : public KvFiles {
 public:
  KvFileStore(KvDirectory directory, const KvBlockShape& shape, const HostBlocks& host,
              const KvFileStoreOptions& options)
      : directory_(std::move(directory)), shape_(shape), host_(host), options_(options) {
    for (int i = 0; i < options_.num_threads; ++i) reads_.push_back(options_.make_reads());
    if (!reads_.empty()) log_info("KV files are read by {}", reads_.front()->name());
    for (const auto& reads : reads_) threads_.emplace_back([this, &reads] { work(*reads); });
    scanner_ = std::thread([this] { scan_now_and_then(); });
  }
  ~KvFileStore() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      loads_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    scanner_.join();
  }

  void store(KvStoreJob job) override { put(stores_, std::move(job)); }
  void load(KvLoadJob job) override { put(loads_, std::move(job)); }
  void remove(std::string file) override { put(removals_, std::move(file)); }
  void poll(std::vector<KvFileEvent>& out) override {
    const std::lock_guard lock(mutex_);
    for (KvFileEvent& event : events_) out.push_back(std::move(event));
    events_.clear();
  }
  std::string pool() const override { return directory_.pool(); }
  Status look_for(std::span<const std::string> files) override {
    for (const std::string& file : files) {
      if (!is_kv_file_name(file)) return invalid_argument("expected names of KV files");
      QUIRE_ASSIGN_OR_RETURN(KvRun run, directory_.describe(file));
      if (run.hashes.empty()) return not_found("{}: of another model or program", file);
      const std::lock_guard lock(mutex_);
      if (known_.insert(file).second)
        events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = std::move(run)});
    }
    return {};
  }
  int64_t file_bytes(int32_t num_blocks, int32_t num_tokens) const override {
    return kv_header_bytes(num_blocks, shape_.num_groups, num_tokens, 0) +
           int64_t{num_blocks} * shape_.num_groups * shape_.block_bytes;
  }

 private:
  using Work = std::variant<std::monostate, KvLoadJob, std::string, KvStoreJob>;

  template <typename T>
  void put(std::deque<T>& queue, T item) {
    {
      const std::lock_guard lock(mutex_);
      queue.push_back(std::move(item));
    }
    wake_.notify_all();
  }
  template <typename T>
  static Work pop(std::deque<T>& queue) {
    Work work = std::move(queue.front());
    queue.pop_front();
    return work;
  }
  // Requests wait for what is read; removing makes room for what is written. Nothing: the end.
  Work next() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] {
      return is_ending_ || !loads_.empty() || !removals_.empty() || !stores_.empty();
    });
    if (!loads_.empty()) return pop(loads_);
    if (!removals_.empty()) return pop(removals_);
    if (!stores_.empty()) return pop(stores_);
    return {};
  }
  void work(FileReads& reads) {
    while (true) {
      Work work = next();
      if (auto* load = std::get_if<KvLoadJob>(&work)) {
        run(*load, reads);
      } else if (auto* file = std::get_if<std::string>(&work)) {
        directory_.remove(*file);
      } else if (auto* store = std::get_if<KvStoreJob>(&work)) {
        run(*store);
      } else {
        return;
      }
    }
  }

  void run(const KvLoadJob& job, FileReads& reads) {
    const int64_t begin_us = clock_.now_us();
    const Result<int64_t> read = directory_.load(job, shape_, host_, reads);
    if (read.status().code() == StatusCode::kDataLoss)
      log_warn("KV cache: {}; it is removed", read.status().message());
    report({.kind = KvFileEvent::Kind::kLoaded,
            .id = job.id,
            .status = read.status(),
            .num_bytes = read.ok() ? *read : 0,
            .took_us = clock_.now_us() - begin_us});
  }
  void run(const KvStoreJob& job) {
    const int64_t begin_us = clock_.now_us();
    Result<KvRun> run = directory_.store(job, shape_, host_);
    KvFileEvent event{.kind = KvFileEvent::Kind::kStored,
                      .id = job.id,
                      .status = run.status(),
                      .took_us = clock_.now_us() - begin_us};
    if (run.ok()) {
      event.num_bytes = run->num_bytes;
      event.run = std::move(*run);
    } else {
      log_warn("KV cache: not written: {}", run.status().message());
    }
    report(std::move(event));
  }
  void report(KvFileEvent event) {
    const std::lock_guard lock(mutex_);
    if (event.kind == KvFileEvent::Kind::kStored && event.status.ok())
      known_.insert(event.run.file);
    events_.push_back(std::move(event));
  }

  // Memory that is used for the first time is found and cleared by the system page by page, which
  // takes longer than to read a file. So that is done before, beside whatever uses it already.
  void touch_memory() {
#ifdef MADV_POPULATE_WRITE
    constexpr uintptr_t kPage = 4096;
    constexpr uintptr_t kPiece = uintptr_t{4} << 20;
    const auto begin = reinterpret_cast<uintptr_t>(host_.data) / kPage * kPage;
    const auto end = reinterpret_cast<uintptr_t>(host_.data) +
                     static_cast<uintptr_t>(host_.num_blocks * host_.block_bytes);
    for (uintptr_t at = begin; at < end && !is_ending(); at += kPiece) {
      const size_t size = std::min(kPiece, end - at);
      if (::madvise(reinterpret_cast<void*>(at), size, MADV_POPULATE_WRITE) != 0) return;
    }
#endif
  }

  void scan_now_and_then() {
    int64_t seen_ns = -1;
    bool has_touched = false;
    std::unique_lock lock(mutex_);
    while (!is_ending_) {
      lock.unlock();
      const int64_t modified_ns = directory_.modified_ns();
      if (modified_ns != seen_ns) scan();
      seen_ns = modified_ns;
      if (!std::exchange(has_touched, true)) touch_memory();
      lock.lock();
      wake_.wait_for(lock, std::chrono::microseconds(options_.rescan_us),
                     [this] { return is_ending_; });
    }
  }
  bool is_ending() const {
    const std::lock_guard lock(mutex_);
    return is_ending_;
  }
  // Tells of files that have come, and then of those that have gone.
  void scan() {
    std::unordered_set<std::string> gone;
    {
      const std::lock_guard lock(mutex_);
      gone = known_;
    }
    for (const KvDirectory::Entry& entry : directory_.list()) {
      if (is_ending()) return;
      if (gone.erase(entry.file) > 0) continue;
      Result<KvRun> run = directory_.describe(entry.file);
      if (!run.ok()) continue;
      const std::lock_guard lock(mutex_);
      if (known_.insert(entry.file).second)
        events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = std::move(*run)});
    }
    const std::lock_guard lock(mutex_);
    for (const std::string& file : gone) {
      known_.erase(file);
      events_.push_back({.kind = KvFileEvent::Kind::kGone, .run = {.file = file}});
    }
  }

  const KvDirectory directory_;
  const KvBlockShape shape_;
  const HostBlocks host_;
  const KvFileStoreOptions options_;
  const SteadyClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<KvLoadJob> loads_;
  std::deque<KvStoreJob> stores_;
  std::deque<std::string> removals_;
  std::vector<KvFileEvent> events_;
  std::unordered_set<std::string> known_;  // files that were told of
  bool is_ending_ = false;
  std::vector<std::unique_ptr<FileReads>> reads_;  // of each thread
  std::vector<std::thread> threads_;
  std::thread scanner_;
};

}  // namespace

std::unique_ptr<KvFiles> make_kv_file_store(KvDirectory directory, const KvBlockShape& shape,
                                            const HostBlocks& host,
                                            const KvFileStoreOptions& options) {
  return std::make_unique<KvFileStore>(std::move(directory), shape, host, options);
}

}  // namespace quire
