// A BackendSet holds the backends of a gateway and chooses one for each request. It is used on the
// gateway's thread only.
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

  // Replaces the backends. A backend whose address is named again stays as it is; the others finish
  // their requests.
  void set(const std::vector<BackendAddress>& addresses);
  // Returns the backends that may get requests when they are healthy.
  std::span<const std::shared_ptr<Backend>> all() const { return backends_; }
  size_t num_healthy() const;

  // The properties of a request by which it is routed.
  struct Hint {
    std::vector<uint64_t> chain;  // prefix chain of the prompt (route/prefix_index.h)
    RouteRequest request;
  };
  Hint hint_of(std::string_view body, std::string_view session) const;
  // Returns a healthy backend that is not in `tried`, or null when there is none.
  std::shared_ptr<Backend> choose(const Hint& hint, std::span<const int32_t> tried);

  // Forgets what the backend had cached, because it lost its cache.
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
