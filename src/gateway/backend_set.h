// The backends of a gateway: which one takes a request, and what became of what they were sent. It
// is used on the gateway's thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gateway/backend.h"
#include "route/prefix_index.h"
#include "route/router.h"

namespace quire::gateway {

class BackendSet {
 public:
  explicit BackendSet(const RouterOptions& options);

  // Replaces the backends: those that are there already stay as they are, and those that are not
  // named any more finish what they have.
  void set(const std::vector<BackendAddress>& addresses);
  // Returns the backends that may get requests when they are healthy.
  std::span<const std::shared_ptr<Backend>> all() const { return backends_; }
  size_t num_healthy() const;

  // What a request is routed by.
  struct Hint {
    std::vector<uint64_t> chain;  // of its prompt (route/prefix_index.h)
    RouteRequest request;
  };
  Hint hint_of(std::string_view body, std::string_view session) const;
  // Returns a healthy backend that is none of `tried`, or null when there is none.
  std::shared_ptr<Backend> choose(const Hint& hint, std::span<const int32_t> tried);

  // It has lost what it had cached.
  void forget(const Backend& backend) { index_.forget(backend.id()); }

 private:
  const Routing routing_;
  Router router_;
  PrefixIndex index_;
  std::vector<std::shared_ptr<Backend>> backends_;  // shared with the calls to them
  std::vector<RouteTarget> targets_;
  std::vector<std::shared_ptr<Backend>> candidates_;
  int32_t num_made_ = 0;
};

}  // namespace quire::gateway
