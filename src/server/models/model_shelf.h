// A ModelShelf provides the models of a folder. Each is loaded when a request first asks for it,
// and stays until another model needs its place or its time is over. One thread loads and unloads
// one model at a time, in the order in which models were asked for. Requests for a model that is
// not in memory wait, and are bounded in number and in time.
//
//   auto shelf = ModelShelf::create({.directory = dir, .load = …});
//   (*shelf)->acquire("llama", [](ApiResult<ModelUse> model) { … });
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/models/model_host.h"
#include "server/models/models_dir.h"
#include "server/models/shelf_book.h"
#include "server/models/shelf_items.h"

namespace quire::server {

// A loaded model and the memory that it takes.
struct ShelfModel {
  ModelUse hosted;
  int64_t bytes = 0;
};

struct ShelfOptions {
  // Loads a model. `bytes` is the memory that it may take; `on_progress` is called with the share
  // that is done.
  using Load = std::function<Result<ShelfModel>(
      const FoundModel& found, const std::vector<std::string>& names, int64_t bytes,
      const std::function<void(double)>& on_progress)>;

  std::string directory;
  ModelAliases aliases = {};
  // Returns the model of each adapter, by the adapter's name: a request for an adapter is a request
  // for its model. It is called again when the folder is read again. Empty: there are no adapters.
  std::function<Result<ModelAliases>()> find_adapters = {};
  ShelfLimits limits = {};
  std::optional<int64_t> keep_alive_us = {};  // default for every model; requests may change it
  int64_t load_timeout_us = 300'000'000;      // longest wait of a request for its model
  int64_t retry_failed_us = 10'000'000;       // time before a failed model is loaded again
  size_t max_waiting = 1024;                  // requests that wait for models, at most
  Load load = {};
};

class ModelShelf final : public ModelHost, public std::enable_shared_from_this<ModelShelf> {
 public:
  // kInvalidArgument: the folder cannot be read or holds no model, or an alias names no model.
  static Result<std::shared_ptr<ModelShelf>> create(ShelfOptions options);
  explicit ModelShelf(ShelfOptions options);
  ~ModelShelf() override;

  const Clock& clock() const override { return clock_; }
  std::vector<ModelStatus> list() const override;
  void acquire(std::string_view name, OnModel on_model) override;
  ApiCheck unload(std::string_view name) override;
  void keep(std::string_view name, std::optional<int64_t> keep_alive_us) override;
  Status reload() override;
  bool work_waits() const override;
  int64_t retry_after_s() const override;
  int64_t num_running() const override;
  void drain(int64_t timeout_us) override;
  void stop() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  Status read_folder();
  void run();
  // Does one thing, if there is one to do. Returns false when there is none.
  bool work_once(Lock& lock);
  bool unload_idle(Lock& lock);
  bool serve_queue(Lock& lock);
  void load(Lock& lock, ShelfItem& item, int64_t bytes);
  void take_out(Lock& lock, ShelfItem& item);
  void serve_waiters(ShelfItem& item, ShelfCalls& calls);
  static void make(Lock& lock, ShelfCalls calls);
  ModelUse begin_use(ShelfItem& item);
  void end_use(const std::string& name);

  const ShelfOptions options_;
  const SteadyClock clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ShelfItems items_;  // guarded by mutex_, as all members below
  ShelfBook book_;
  std::deque<std::string> queue_;  // models to load, in order
  bool is_draining_ = false;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace quire::server
