#include "server/models/model_shelf.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"

namespace quire::server {
namespace {

// How often the engines' health is checked.
constexpr int64_t kLookEveryUs = 1'000'000;
// Memory for KV blocks and workspace as a share of the model's files, when no limit is given: one
// part in 4.
constexpr int64_t kRoomShare = 4;

int64_t bytes_wanted(const FoundModel& found, const ShelfLimits& limits) {
  const int64_t needed = found.file_bytes + found.file_bytes / kRoomShare;
  if (limits.max_bytes == 0) return needed;
  return std::max(needed, limits.max_bytes / limits.max_loaded);
}

}  // namespace

Result<std::shared_ptr<ModelShelf>> ModelShelf::create(ShelfOptions options) {
  if (options.limits.max_loaded < 1)
    return invalid_argument("--max-loaded-models: expected at least 1, got {}",
                            options.limits.max_loaded);
  auto shelf = std::make_shared<ModelShelf>(std::move(options));
  QUIRE_RETURN_IF_ERROR(shelf->read_folder());
  if (shelf->items_.all().empty()) {
    return invalid_argument(
        "--models-dir: expected folders with a config.json or .gguf files in {}, found none",
        shelf->options_.directory);
  }
  shelf->thread_ = std::thread([raw = shelf.get()] { raw->run(); });
  return shelf;
}

ModelShelf::ModelShelf(ShelfOptions options)
    : options_(std::move(options)), book_(options_.limits) {}

ModelShelf::~ModelShelf() { stop(); }

void ModelShelf::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = is_stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status ModelShelf::read_folder() {
  ModelAliases adapters;
  if (options_.find_adapters) {
    QUIRE_ASSIGN_OR_RETURN(adapters, options_.find_adapters());
  }
  return items_.read(options_.directory, options_.aliases, adapters);
}

Status ModelShelf::reload() {
  Lock lock(mutex_);
  QUIRE_RETURN_IF_ERROR(read_folder());
  ShelfCalls calls;
  for (auto entry = items_.all().begin(); entry != items_.all().end();) {
    auto& [name, item] = *entry;
    if (!item.is_removed || book_.find(name) != nullptr) {
      ++entry;
      continue;
    }
    ShelfItems::refuse_waiters(item, items_.unknown(name), calls);
    std::erase(queue_, name);
    entry = items_.all().erase(entry);
  }
  make(lock, std::move(calls));
  changed_.notify_all();
  return {};
}

std::vector<ModelStatus> ModelShelf::list() const {
  const std::lock_guard lock(mutex_);
  return items_.list(book_);
}

void ModelShelf::acquire(std::string_view name, OnModel on_model) {
  Lock lock(mutex_);
  ShelfItem* item = items_.find(name);
  if (name.empty()) {
    ShelfItems::Map& all = items_.all();
    item = all.size() == 1 ? &all.begin()->second : items_.find(book_.most_recent());
  }
  const auto refuse = [&](const ApiError& error) {
    lock.unlock();
    on_model(error);
  };
  if (item == nullptr || item->is_removed) return refuse(items_.unknown(name));
  if (item->state == ModelState::kLoaded) {
    ModelUse use = begin_use(*item);
    lock.unlock();
    return on_model(std::move(use));
  }
  if (is_draining_) return refuse(unavailable_error("the server is shutting down", 1));
  const int64_t now_us = clock_.now_us();
  if (item->state == ModelState::kFailed && now_us < item->failed_us + options_.retry_failed_us)
    return refuse(item->cannot_load());
  if (items_.num_waiting() >= options_.max_waiting) {
    return refuse(unavailable_error(
        fmt::format("{} requests wait for models to be loaded; try again", options_.max_waiting),
        5));
  }
  item->waiters.push_back({std::move(on_model), now_us + options_.load_timeout_us});
  if (std::find(queue_.begin(), queue_.end(), item->found.name) == queue_.end())
    queue_.push_back(item->found.name);
  changed_.notify_all();
}

// The use ends when the last copy is destroyed.
ModelUse ModelShelf::begin_use(ShelfItem& item) {
  book_.begin_use(item.found.name, clock_.now_us());
  return {item.hosted.get(),
          [weak = weak_from_this(), hosted = item.hosted, name = item.found.name](auto*) mutable {
            hosted.reset();
            if (const auto shelf = weak.lock()) shelf->end_use(name);
          }};
}

void ModelShelf::end_use(const std::string& name) {
  const std::lock_guard lock(mutex_);
  book_.end_use(name, clock_.now_us());
  changed_.notify_all();
}

ApiCheck ModelShelf::unload(std::string_view name) {
  const std::lock_guard lock(mutex_);
  ShelfItem* const item = items_.find(name);
  if (item == nullptr) return items_.unknown(name);
  if (item->state == ModelState::kLoaded || item->state == ModelState::kUnloading) {
    item->begin_unload();
    changed_.notify_all();
  }
  return std::nullopt;
}

void ModelShelf::keep(std::string_view name, std::optional<int64_t> keep_alive_us) {
  const std::lock_guard lock(mutex_);
  const ShelfItem* const item = items_.find(name);
  if (item == nullptr || book_.find(item->found.name) == nullptr) return;
  book_.row(item->found.name).keep_alive_us = keep_alive_us;
  changed_.notify_all();
}

bool ModelShelf::work_waits() const {
  const std::lock_guard lock(mutex_);
  const ShelfItems::Map& all = items_.all();
  return std::any_of(all.begin(), all.end(), [](const auto& item) {
    return item.second.hosted != nullptr && item.second.hosted->model.engine->has_waiting();
  });
}

int64_t ModelShelf::retry_after_s() const {
  int64_t longest_s = 1;
  for (const ModelStatus& status : list()) {
    if (status.loaded != nullptr)
      longest_s = std::max(longest_s, status.loaded->model.engine->retry_after_s());
  }
  return longest_s;
}

int64_t ModelShelf::num_running() const {
  int64_t sum = 0;
  for (const ModelStatus& status : list()) {
    if (status.loaded != nullptr) sum += status.loaded->model.engine->stats().num_requests_running;
  }
  return sum;
}

void ModelShelf::drain(int64_t timeout_us) {
  std::vector<ModelUse> loaded;
  {
    Lock lock(mutex_);
    is_draining_ = true;
    queue_.clear();
    ShelfCalls calls;
    for (auto& [name, item] : items_.all()) {
      ShelfItems::refuse_waiters(item, unavailable_error("the server is shutting down", 1), calls);
      if (item.hosted != nullptr) loaded.push_back(begin_use(item));
    }
    make(lock, std::move(calls));
  }
  const int64_t end_us = clock_.now_us() + timeout_us;
  for (const ModelUse& model : loaded)
    model->model.engine->drain(std::max<int64_t>(0, end_us - clock_.now_us()));
}

// Runs on the thread that loads and unloads models.
void ModelShelf::run() {
  Lock lock(mutex_);
  while (!is_stopped_) {
    if (work_once(lock)) continue;
    int64_t wait_us = kLookEveryUs;
    for (const auto next_us : {book_.next_expiry_us(), items_.next_deadline_us()}) {
      if (next_us)
        wait_us = std::min(wait_us, std::max<int64_t>(*next_us - clock_.now_us(), 1'000));
    }
    changed_.wait_for(lock, std::chrono::microseconds(wait_us));
  }
  ShelfCalls calls;
  std::vector<ModelUse> models;
  for (auto& [name, item] : items_.all()) {
    ShelfItems::refuse_waiters(item, unavailable_error("the server is shutting down", 1), calls);
    models.push_back(std::exchange(item.hosted, nullptr));
    item.state = ModelState::kUnloaded;
  }
  make(lock, std::move(calls));
  lock.unlock();
  models.clear();
}

bool ModelShelf::work_once(Lock& lock) {
  for (const std::string& name : book_.expired(clock_.now_us())) {
    ShelfItem& item = items_.at(name);
    if (item.state == ModelState::kLoaded) item.begin_unload();
  }
  for (auto& [name, item] : items_.all()) {
    if (item.hosted == nullptr || item.hosted->model.engine->healthy()) continue;
    item.error = "its engine has failed; see the log";
    item.begin_unload();
  }
  ShelfCalls calls;
  items_.refuse_expired(clock_.now_us(), calls);
  make(lock, std::move(calls));
  if (unload_idle(lock) || serve_queue(lock)) return true;
  for (auto& [name, item] : items_.all()) {  // nobody needs their places any longer
    const bool gives_way = item.state == ModelState::kUnloading && !item.must_go;
    if (gives_way && queue_.empty()) item.state = ModelState::kLoaded;
  }
  return false;
}

bool ModelShelf::unload_idle(Lock& lock) {
  for (auto& [name, item] : items_.all()) {
    if (item.state != ModelState::kUnloading || !book_.row(name).is_idle()) continue;
    const bool gives_way = !item.must_go && !queue_.empty() && queue_.front() != name;
    if (!item.must_go && !gives_way) continue;
    take_out(lock, item);
    return true;
  }
  return false;
}

// Pages may hold the model for a moment longer. This thread destroys it, because that takes a
// while.
void ModelShelf::take_out(Lock& lock, ShelfItem& item) {
  const std::string name = item.found.name;
  ModelUse model = std::move(item.hosted);
  lock.unlock();
  while (model.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool has_failed = !model->model.engine->healthy();
  model.reset();
  log_info("{}: unloaded", name);
  lock.lock();
  book_.erase(name);
  item.must_go = false;
  item.progress = 0;
  item.state = has_failed ? ModelState::kFailed : ModelState::kUnloaded;
  item.failed_us = has_failed ? clock_.now_us() - options_.retry_failed_us : 0;
  if (item.is_removed) {
    ShelfCalls calls;
    ShelfItems::refuse_waiters(item, items_.unknown(name), calls);
    std::erase(queue_, name);
    items_.all().erase(name);
    make(lock, std::move(calls));
  }
}

// Returns true when something was done or is running.
bool ModelShelf::serve_queue(Lock& lock) {
  if (queue_.empty() || is_draining_) return false;
  ShelfItem& item = items_.at(queue_.front());
  if (item.waiters.empty()) {
    queue_.pop_front();
    return true;
  }
  if (item.state == ModelState::kUnloading) {
    if (item.must_go) return false;    // wait until it is unloaded
    item.state = ModelState::kLoaded;  // nobody needs its place any longer
  }
  if (item.state == ModelState::kLoaded) {
    queue_.pop_front();
    ShelfCalls calls;
    serve_waiters(item, calls);
    make(lock, std::move(calls));
    return true;
  }
  const int64_t bytes = bytes_wanted(item.found, options_.limits);
  const auto victims = book_.victims_for(bytes);
  if (!victims) {
    item.error = fmt::format(
        "it takes about {} MiB, more than the {} MiB that all models may take "
        "(--max-models-memory)",
        bytes >> 20, options_.limits.max_bytes >> 20);
    ShelfCalls calls;
    ShelfItems::refuse_waiters(item, item.cannot_load(), calls);
    make(lock, std::move(calls));
    return true;
  }
  if (victims->empty()) {
    queue_.pop_front();
    load(lock, item, bytes);
    return true;
  }
  bool is_new = false;
  for (const std::string& name : *victims) {
    ShelfItem& victim = items_.at(name);
    if (victim.state != ModelState::kLoaded) continue;
    victim.state = ModelState::kUnloading;  // requests for it wait from this moment
    is_new = true;
  }
  return is_new;
}

void ModelShelf::load(Lock& lock, ShelfItem& item, int64_t bytes) {
  const std::string name = item.found.name;
  const FoundModel found = item.found;
  std::vector<std::string> names = {name};
  names.insert(names.end(), item.aliases.begin(), item.aliases.end());
  item.state = ModelState::kLoading;
  item.progress = 0;
  book_.add(name, bytes, clock_.now_us(), options_.keep_alive_us);
  lock.unlock();
  log_info("{}: loading {}", name, found.path);
  const int64_t begin_us = clock_.now_us();
  Result<ShelfModel> loaded = options_.load(found, names, bytes, [&](double progress) {
    const std::lock_guard inner(mutex_);
    item.progress = progress;
  });
  const double seconds = static_cast<double>(clock_.now_us() - begin_us) * 1e-6;
  if (loaded.ok()) {
    log_info("{}: loaded in {:.2f} s, {} MiB", name, seconds, loaded->bytes >> 20);
  } else {
    log_warn("{}: cannot be loaded: {}", name, loaded.status().message());
  }
  lock.lock();
  ShelfCalls calls;
  if (loaded.ok()) {
    book_.set_bytes(name, loaded->bytes);
    item.hosted = std::move(loaded->hosted);
    item.created_s = std::time(nullptr);
    item.state = ModelState::kLoaded;
    serve_waiters(item, calls);
    if (item.is_removed) item.begin_unload();
  } else {
    book_.erase(name);
    item.state = ModelState::kFailed;
    item.error = loaded.status().message();
    item.failed_us = clock_.now_us();
    ShelfItems::refuse_waiters(item, item.cannot_load(), calls);
  }
  make(lock, std::move(calls));
}

void ModelShelf::serve_waiters(ShelfItem& item, ShelfCalls& calls) {
  for (ShelfItem::Waiter& waiter : item.waiters) {
    calls.push_back([on_model = std::move(waiter.on_model), use = begin_use(item)]() mutable {
      on_model(std::move(use));
    });
  }
  item.waiters.clear();
}

void ModelShelf::make(Lock& lock, ShelfCalls calls) {
  if (calls.empty()) return;
  lock.unlock();
  for (const auto& call : calls) call();
  calls.clear();  // the uses that they hold end without the lock
  lock.lock();
}

}  // namespace quire::server
