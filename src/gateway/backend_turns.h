// BackendTurns records which backend has a request and which ones had it before. It is used on the
// gateway's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gateway/backend_set.h"

namespace quire::gateway {

class BackendTurns {
 public:
  // `num_tokens` is about the length of the request. It is added to the load of the backend that
  // has the request.
  BackendTurns(BackendSet& backends, BackendSet::Hint hint, int64_t num_tokens)
      : backends_(backends), hint_(std::move(hint)), num_tokens_(num_tokens) {}
  BackendTurns(const BackendTurns&) = delete;
  BackendTurns& operator=(const BackendTurns&) = delete;
  ~BackendTurns() { end(); }

  // Gives the request to a healthy backend that has not had it yet; returns false when there is
  // none.
  bool begin() {
    backend_ = backends_.choose(hint_, tried_);
    if (backend_ == nullptr) return false;
    tried_.push_back(backend_->id());
    ++backend_->counts.num_requests;
    ++backend_->num_open;
    backend_->num_open_tokens += num_tokens_;
    return true;
  }
  void end() {
    if (backend_ == nullptr) return;
    --backend_->num_open;
    backend_->num_open_tokens -= num_tokens_;
    backend_ = nullptr;
  }
  // Returns the backend that has the request, or null between turns.
  const std::shared_ptr<Backend>& backend() const { return backend_; }
  bool is_first() const { return tried_.size() <= 1; }

 private:
  BackendSet& backends_;
  const BackendSet::Hint hint_;
  const int64_t num_tokens_;
  std::vector<int32_t> tried_;
  std::shared_ptr<Backend> backend_;  // shared with the set and the call to it
};

}  // namespace quire::gateway
