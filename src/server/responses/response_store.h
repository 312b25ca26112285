// ResponseStore stores responses so that clients can read them later, continue their conversations,
// and follow or cancel those that run in the background. The store does not outlive the process.
#pragma once

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace quire::server {

// A ResponseTurn is what one response added to its conversation. Later turns share earlier ones.
class ResponseTurn {
 public:
  using Items = std::shared_ptr<const boost::json::array>;

  ResponseTurn(std::shared_ptr<ResponseTurn> previous, Items input, boost::json::array output,
               std::shared_ptr<std::atomic<uint64_t>> held_bytes);
  ~ResponseTurn();
  ResponseTurn(const ResponseTurn&) = delete;
  ResponseTurn& operator=(const ResponseTurn&) = delete;

  const std::shared_ptr<ResponseTurn>& previous() const { return previous_; }
  const boost::json::array& input() const { return *input_; }
  const boost::json::array& output() const { return output_; }

 private:
  std::shared_ptr<ResponseTurn> previous_;
  const Items input_;
  const boost::json::array output_;
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_;  // by all living turns
  uint64_t bytes_ = 0;
};

// A StoredResponse lasts from its request until it is removed from the store. Any thread may call
// it.
class StoredResponse {
 public:
  struct Begin {
    std::string id;
    std::string owner;  // digest of the key that made it; empty: none
    int64_t created_us = 0;
    bool is_background = false;
    bool keeps_events = false;  // for readers that follow the response
    std::shared_ptr<ResponseTurn> previous;
    ResponseTurn::Items input;
    boost::json::object response;  // its state at the beginning
  };
  StoredResponse(Begin begin, std::shared_ptr<std::atomic<uint64_t>> held_bytes);
  ~StoredResponse();
  StoredResponse(const StoredResponse&) = delete;
  StoredResponse& operator=(const StoredResponse&) = delete;

  const std::string& id() const { return begin_.id; }
  const std::string& owner() const { return begin_.owner; }
  int64_t created_us() const { return begin_.created_us; }
  bool is_background() const { return begin_.is_background; }
  bool keeps_events() const { return begin_.keeps_events; }
  // Returns the input items of the request.
  const boost::json::array& input() const { return *begin_.input; }

  boost::json::object response() const;
  bool finished() const;
  // Returns the turn; null while the response runs.
  std::shared_ptr<ResponseTurn> turn() const;

  void set_running(boost::json::object response);
  void add_event(std::string event);
  // Sets the final response. Later calls are ignored.
  void finish(boost::json::object response);
  // Ends the response with this status and leaves the rest unchanged, unless it has already ended.
  void end_as(std::string_view status, std::string_view error_code, std::string_view error_message);

  // Appends events from `first` on, about max_bytes of them, but at least one if there is one.
  // Returns the index of the next event. `at_end` is set when no more events will come.
  int64_t read_events(int64_t first, size_t max_bytes, std::string& out, bool& at_end) const;
  // The bell is called after each event and at the end, on any thread, as long as its owner lives.
  void add_bell(std::weak_ptr<std::function<void()>> bell);

  // Sets the function that stops the response. It is called at once when cancel() was called
  // before.
  void set_cancel(std::function<void()> cancel);
  void cancel();

 private:
  void ring();

  Begin begin_;
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_;
  mutable std::mutex mutex_;
  boost::json::object response_;  // guarded by mutex_, as all members below
  std::shared_ptr<ResponseTurn> turn_;
  std::vector<std::string> events_;
  std::vector<std::weak_ptr<std::function<void()>>> bells_;
  std::function<void()> cancel_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  bool is_cancelled_ = false;
};

// Any thread may call these methods.
class ResponseStore {
 public:
  // Responses that have ended are removed, the oldest first, while the store holds more than
  // max_bytes, or when they are older than ttl_us.
  ResponseStore(uint64_t max_bytes, int64_t ttl_us) : max_bytes_(max_bytes), ttl_us_(ttl_us) {}

  std::shared_ptr<StoredResponse> add(StoredResponse::Begin begin);
  // Makes a response that find() does not return.
  std::shared_ptr<StoredResponse> make(StoredResponse::Begin begin);
  // Returns null when the response is unknown, has been removed, or belongs to another owner.
  std::shared_ptr<StoredResponse> find(const std::string& id, std::string_view owner,
                                       int64_t now_us);
  void erase(const std::string& id);
  void trim(int64_t now_us);

  uint64_t held_bytes() const { return held_bytes_->load(); }
  size_t size() const;

 private:
  using Order = std::list<std::shared_ptr<StoredResponse>>;
  void drop(Order::iterator place, std::vector<std::shared_ptr<StoredResponse>>& dropped);

  const uint64_t max_bytes_;
  const int64_t ttl_us_;
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  mutable std::mutex mutex_;
  Order order_;                                             // guarded by mutex_: oldest first
  std::unordered_map<std::string, Order::iterator> by_id_;  // guarded by mutex_
};

}  // namespace quire::server
