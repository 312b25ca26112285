// Responses that clients may come back to: to read them, to go on with their conversation, to follow
// or cancel what runs in the background. Nothing outlives the process.
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

// What one response added to its conversation. Later turns share earlier ones.
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
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_;  // of all turns that live
  uint64_t bytes_ = 0;
};

// One response, from its request to its end and until it is forgotten. Any thread may call it.
class StoredResponse {
 public:
  struct Begin {
    std::string id;
    std::string owner;  // the key that asked for it; empty: none
    int64_t created_us = 0;
    bool is_background = false;
    bool keeps_events = false;  // for readers that follow it
    std::shared_ptr<ResponseTurn> previous;
    ResponseTurn::Items input;
    boost::json::object response;  // as it stands at the beginning
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
  // Of the request, as they came.
  const boost::json::array& input() const { return *begin_.input; }

  boost::json::object response() const;
  bool finished() const;
  // Returns the turn, or null while the response runs.
  std::shared_ptr<ResponseTurn> turn() const;

  void set_running(boost::json::object response);
  void add_event(std::string event);
  // The last word; later ones are dropped.
  void finish(boost::json::object response);
  // The response with this status and nothing else changed, unless it has ended.
  void end_as(std::string_view status, std::string_view error_code, std::string_view error_message);

  // Reads events from `first` on, at least one where there is one, about max_bytes of them. Returns
  // the index of the next one. `at_end` says that no more will come.
  int64_t read_events(int64_t first, size_t max_bytes, std::string& out, bool& at_end) const;
  // Rings after each event and at the end, on any thread, as long as the bell's owner lives.
  void add_bell(std::weak_ptr<std::function<void()>> bell);

  // Sets what stops the response. It is called at once where a stop has been asked for already.
  void set_cancel(std::function<void()> cancel);
  void cancel();

 private:
  void ring();

  Begin begin_;
  const std::shared_ptr<std::atomic<uint64_t>> held_bytes_;
  mutable std::mutex mutex_;
  boost::json::object response_;  // guarded by mutex_, as all below
  std::shared_ptr<ResponseTurn> turn_;
  std::vector<std::string> events_;
  std::vector<std::weak_ptr<std::function<void()>>> bells_;
  std::function<void()> cancel_;
  uint64_t bytes_ = 0;
  bool finished_ = false;
  bool is_cancelled_ = false;
};

// Any thread may call it.
class ResponseStore {
 public:
  // Of the oldest responses that have ended, as many are forgotten as keep the rest below max_bytes,
  // and those older than ttl_us.
  ResponseStore(uint64_t max_bytes, int64_t ttl_us) : max_bytes_(max_bytes), ttl_us_(ttl_us) {}

  std::shared_ptr<StoredResponse> add(StoredResponse::Begin begin);
  // Makes a response that is not to be found again.
  std::shared_ptr<StoredResponse> make(StoredResponse::Begin begin);
  // Returns a response, or null when it is unknown, forgotten, or another owner's.
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
