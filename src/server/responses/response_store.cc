#include "server/responses/response_store.h"

#include <algorithm>
#include <utility>

#include "server/json/json_body.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// Memory of a response besides its values.
constexpr uint64_t kResponseBytes = 1024;

}  // namespace

ResponseTurn::ResponseTurn(std::shared_ptr<ResponseTurn> previous, Items input, json::array output,
                           std::shared_ptr<std::atomic<uint64_t>> held_bytes)
    : previous_(std::move(previous)),
      input_(std::move(input)),
      output_(std::move(output)),
      held_bytes_(std::move(held_bytes)),
      bytes_(memory_bytes(*input_) + memory_bytes(output_)) {
  held_bytes_->fetch_add(bytes_);
}

ResponseTurn::~ResponseTurn() {
  held_bytes_->fetch_sub(bytes_);
  // The turns are destroyed one after the other, so that a long conversation needs no deep stack.
  std::shared_ptr<ResponseTurn> next = std::move(previous_);
  while (next != nullptr && next.use_count() == 1) {
    next = std::exchange(next->previous_, nullptr);
  }
}

StoredResponse::StoredResponse(Begin begin, std::shared_ptr<std::atomic<uint64_t>> held_bytes)
    : begin_(std::move(begin)),
      held_bytes_(std::move(held_bytes)),
      response_(std::move(begin_.response)),
      bytes_(kResponseBytes + memory_bytes(response_)) {
  held_bytes_->fetch_add(bytes_);
}

StoredResponse::~StoredResponse() { held_bytes_->fetch_sub(bytes_); }

json::object StoredResponse::response() const {
  const std::lock_guard lock(mutex_);
  return response_;
}

bool StoredResponse::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

std::shared_ptr<ResponseTurn> StoredResponse::turn() const {
  const std::lock_guard lock(mutex_);
  return turn_;
}

void StoredResponse::set_running(json::object response) {
  const std::lock_guard lock(mutex_);
  if (!finished_) response_ = std::move(response);
}

void StoredResponse::add_event(std::string event) {
  if (!begin_.keeps_events) return;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    bytes_ += event.size();
    held_bytes_->fetch_add(event.size());
    events_.push_back(std::move(event));
  }
  ring();
}

void StoredResponse::finish(json::object response) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    const uint64_t before = memory_bytes(response_), after = memory_bytes(response);
    bytes_ += after - before;
    held_bytes_->fetch_add(after - before);
    json::array output;
    if (const json::value* const items = response.if_contains("output")) {
      output = items->get_array();
    }
    turn_ = std::make_shared<ResponseTurn>(begin_.previous, begin_.input, std::move(output),
                                           held_bytes_);
    response_ = std::move(response);
    finished_ = true;
    cancel_ = nullptr;
  }
  ring();
}

void StoredResponse::end_as(std::string_view status, std::string_view error_code,
                            std::string_view error_message) {
  json::object last = response();
  last["status"] = status;
  if (!error_code.empty()) {
    last["error"] = json::object{{"code", error_code}, {"message", error_message}};
  }
  finish(std::move(last));
}

int64_t StoredResponse::read_events(int64_t first, size_t max_bytes, std::string& out,
                                    bool& at_end) const {
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<int64_t>(events_.size());
  int64_t next = std::clamp<int64_t>(first, 0, count);
  const size_t begin = out.size();
  while (next < count && out.size() - begin < max_bytes) {
    out += events_[static_cast<size_t>(next++)];
  }
  at_end = finished_ && next == count;
  return std::max(next, first);
}

void StoredResponse::add_bell(std::weak_ptr<std::function<void()>> bell) {
  const std::lock_guard lock(mutex_);
  std::erase_if(bells_, [](const auto& other) { return other.expired(); });
  bells_.push_back(std::move(bell));
}

void StoredResponse::ring() {
  std::vector<std::weak_ptr<std::function<void()>>> bells;
  {
    const std::lock_guard lock(mutex_);
    bells = bells_;
  }
  for (const auto& weak : bells) {
    if (const auto bell = weak.lock()) (*bell)();
  }
}

void StoredResponse::set_cancel(std::function<void()> cancel) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_ && !is_cancelled_) return;
    if (!is_cancelled_) {
      cancel_ = std::move(cancel);
      return;
    }
  }
  cancel();
}

void StoredResponse::cancel() {
  std::function<void()> stop;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    is_cancelled_ = true;
    stop = std::move(cancel_);
  }
  end_as("cancelled", "", "");
  if (stop) stop();
}

std::shared_ptr<StoredResponse> ResponseStore::make(StoredResponse::Begin begin) {
  return std::make_shared<StoredResponse>(std::move(begin), held_bytes_);
}

std::shared_ptr<StoredResponse> ResponseStore::add(StoredResponse::Begin begin) {
  const int64_t now_us = begin.created_us;
  std::shared_ptr<StoredResponse> stored = make(std::move(begin));
  {
    const std::lock_guard lock(mutex_);
    by_id_[stored->id()] = order_.insert(order_.end(), stored);
  }
  trim(now_us);
  return stored;
}

std::shared_ptr<StoredResponse> ResponseStore::find(const std::string& id, std::string_view owner,
                                                    int64_t now_us) {
  trim(now_us);
  const std::lock_guard lock(mutex_);
  const auto place = by_id_.find(id);
  if (place == by_id_.end() || (*place->second)->owner() != owner) return nullptr;
  return *place->second;
}

void ResponseStore::drop(Order::iterator place,
                         std::vector<std::shared_ptr<StoredResponse>>& dropped) {
  by_id_.erase((*place)->id());
  dropped.push_back(std::move(*place));
  order_.erase(place);
}

void ResponseStore::erase(const std::string& id) {
  std::vector<std::shared_ptr<StoredResponse>> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (const auto place = by_id_.find(id); place != by_id_.end()) drop(place->second, dropped);
}

void ResponseStore::trim(int64_t now_us) {
  while (true) {
    std::vector<std::shared_ptr<StoredResponse>> dropped;
    {
      const std::lock_guard lock(mutex_);
      const bool is_full = held_bytes_->load() > max_bytes_;
      const auto oldest = std::find_if(order_.begin(), order_.end(),
                                       [](const auto& stored) { return stored->finished(); });
      if (oldest == order_.end()) return;
      if (!is_full && now_us - (*oldest)->created_us() < ttl_us_) return;
      drop(oldest, dropped);
    }
  }
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

}  // namespace quire::server
