#include "transfer/kv_file_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/log.h"
#include "transfer/kv_cells.h"

namespace quire {
namespace {

class KvFileStore final : public KvFiles {
 public:
  using Cells = std::array<std::optional<KvCells>, kNumKvPools>;  // nullopt: the pool is not used

  KvFileStore(KvDirectory directory, Cells cells, const KvFileStoreOptions& options)
      : directory_(std::move(directory)), cells_(std::move(cells)), options_(options) {
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
  std::string file_set() const override { return directory_.file_set(); }
  Status check_file_set(const std::string& file_set) const override {
    return directory_.check_file_set(file_set);
  }
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
  int64_t file_bytes(KvPool pool, int32_t num_cells, int32_t num_tokens) const override {
    return kv_header_bytes(num_cells, num_tokens, 0) + num_cells * cells(pool).cell_bytes();
  }

 private:
  using Work = std::variant<std::monostate, KvLoadJob, std::string, KvStoreJob>;

  const KvCells& cells(KvPool pool) const { return *cells_[static_cast<size_t>(pool)]; }
  KvCellShape shape(KvPool pool) const {
    return {pool, options_.cell_tokens, cells(pool).cell_bytes()};
  }

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
  // Waits for work. Loads come first, since requests wait for them; removals come before stores,
  // since they make room. Returns an empty Work at the end.
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
    std::vector<std::byte> buffer;  // cells that are read or written
    while (true) {
      Work work = next();
      if (auto* load = std::get_if<KvLoadJob>(&work)) {
        run(*load, reads, buffer);
      } else if (auto* file = std::get_if<std::string>(&work)) {
        directory_.remove(*file);
      } else if (auto* store = std::get_if<KvStoreJob>(&work)) {
        run(*store, buffer);
      } else {
        return;
      }
    }
  }

  // Returns the ids of the block that has cell number `i` of a job's cells.
  static std::span<const BlockId> blocks_of(const KvCells& cells,
                                            const std::vector<BlockId>& blocks, int32_t i) {
    const auto num_groups = static_cast<size_t>(cells.num_groups());
    return std::span(blocks).subspan(static_cast<size_t>(i / cells.block_cells()) * num_groups,
                                     num_groups);
  }
  void run(const KvLoadJob& job, FileReads& reads, std::vector<std::byte>& buffer) {
    const int64_t begin_us = clock_.now_us();
    const KvCells& cells = this->cells(job.pool);
    KvFileEvent event{.kind = KvFileEvent::Kind::kLoaded, .id = job.id};
    for (const KvSource& source : job.sources) {
      const int32_t begin = source.run_first_cell + source.first_in_run - job.first_cell;
      const Result<int64_t> read =
          directory_.load(source, job.prefix, shape(job.pool), reads, buffer,
                          [&](int32_t i, const std::byte* bytes) {
                            cells.scatter(bytes, blocks_of(cells, job.host_blocks, begin + i),
                                          (begin + i) % cells.block_cells());
                          });
      if (read.status().code() == StatusCode::kDataLoss)
        log_warn("KV cache: {}; it is removed", read.status().message());
      if (read.ok()) {
        event.num_bytes += *read;
        continue;
      }
      event.status = read.status();
      event.run.file = source.file;
      break;
    }
    event.took_us = clock_.now_us() - begin_us;
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  void run(const KvStoreJob& job, std::vector<std::byte>& buffer) {
    const int64_t begin_us = clock_.now_us();
    const KvCells& cells = this->cells(job.run.pool);
    const int32_t count = job.run.num_cells();
    const auto size = static_cast<size_t>(count * cells.cell_bytes());
    if (buffer.size() < size) buffer.resize(size);
    for (int32_t i = 0; i < count; ++i) {
      cells.gather(blocks_of(cells, job.host_blocks, i), i % cells.block_cells(),
                   buffer.data() + i * cells.cell_bytes());
    }
    const std::string file = directory_.file_of(job.run);
    {
      const std::lock_guard lock(mutex_);
      writing_.insert(file);
    }
    Result<KvRun> run =
        directory_.store(job.run, job.prefix, shape(job.run.pool), std::span(buffer).first(size));
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
    const std::lock_guard lock(mutex_);
    writing_.erase(file);
    if (run.ok()) known_.insert(file);
    events_.push_back(std::move(event));
  }

  // The system allocates and clears memory page by page when it is first used, which takes longer
  // than reading a file. This does it in advance, while other threads may already use the memory.
  void touch_memory() {
    for (const std::optional<KvCells>& cells : cells_) {
      if (!cells) continue;
      for (const HostBlocks& part : cells->parts()) touch(part);
    }
  }
  void touch(const HostBlocks& part) {
#ifdef MADV_POPULATE_WRITE
    constexpr uintptr_t kPage = 4096;
    constexpr uintptr_t kPiece = uintptr_t{4} << 20;
    const auto begin = reinterpret_cast<uintptr_t>(part.data) / kPage * kPage;
    const auto end = reinterpret_cast<uintptr_t>(part.data) +
                     static_cast<uintptr_t>(part.num_blocks * part.block_bytes);
    for (uintptr_t at = begin; at < end && !is_ending(); at += kPiece) {
      const size_t size = std::min(kPiece, end - at);
      if (::madvise(reinterpret_cast<void*>(at), size, MADV_POPULATE_WRITE) != 0) return;
    }
#else
    (void)part;
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
  // Reports files that have appeared, and then files that are gone.
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
      if (!writing_.contains(entry.file) && known_.insert(entry.file).second)
        events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = std::move(*run)});
    }
    const std::lock_guard lock(mutex_);
    for (const std::string& file : gone) {
      known_.erase(file);
      events_.push_back({.kind = KvFileEvent::Kind::kGone, .run = {.file = file}});
    }
  }

  const KvDirectory directory_;
  const Cells cells_;
  const KvFileStoreOptions options_;
  const SteadyClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<KvLoadJob> loads_;
  std::deque<KvStoreJob> stores_;
  std::deque<std::string> removals_;
  std::vector<KvFileEvent> events_;
  std::unordered_set<std::string> known_;  // files that were reported
  // Files that threads write. One is there before it is reported, as stored.
  std::unordered_set<std::string> writing_;
  bool is_ending_ = false;
  std::vector<std::unique_ptr<FileReads>> reads_;  // one for each thread
  std::vector<std::thread> threads_;
  std::thread scanner_;
};

}  // namespace

Result<std::unique_ptr<KvFiles>> make_kv_file_store(KvDirectory directory,
                                                    const KvHostMemory& memory, int32_t block_size,
                                                    const KvFileStoreOptions& options) {
  if (block_size % options.cell_tokens != 0) {
    return invalid_argument("KV files: expected blocks of a multiple of {} tokens, got {}",
                            options.cell_tokens, block_size);
  }
  KvFileStore::Cells cells;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (memory.at(pool).empty()) continue;
    const bool is_state = pool == KvPool::kState;  // a state is one cell of one token
    QUIRE_ASSIGN_OR_RETURN(
        cells[static_cast<size_t>(pool)],
        KvCells::create(memory.at(pool), is_state ? 1 : block_size / options.cell_tokens,
                        is_state ? 1 : options.cell_tokens));
  }
  return std::unique_ptr<KvFiles>(
      std::make_unique<KvFileStore>(std::move(directory), std::move(cells), options));
}

}  // namespace quire
