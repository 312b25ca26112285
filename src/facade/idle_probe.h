// Measures the machine behind a running server, so that nobody waits for it: neither the start nor
// a request.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "engine/async_engine.h"
#include "facade/hardware/machine_hardware.h"

namespace quire {

struct IdleProbeOptions {
  std::function<Result<QuickProbe>()> probe;
  std::function<void(const QuickProbe& probe)> keep;  // of a probe that was not disturbed
  // What the engine is to compute bounds with; null: nothing can be said of this model.
  std::function<std::shared_ptr<const CostModel>(const Hardware& hardware)> cost_model;
  int64_t period_us = 1'000'000;  // until the first probe, and between looks at a busy engine
};

// Lives as long as the engine is served. A thread of its own waits until the engine has nothing to
// do, probes, and gives the engine its cost model. A probe that a request or another program
// disturbed serves until there is a better one: it is taken again after a pause that doubles.
class IdleProbe {
 public:
  IdleProbe(std::shared_ptr<AsyncEngine> engine, IdleProbeOptions options);
  ~IdleProbe();  // waits for a probe that is under way
  IdleProbe(const IdleProbe&) = delete;
  IdleProbe& operator=(const IdleProbe&) = delete;

 private:
  void run();
  // A probe of an engine that had nothing to do before and after it; nullopt: it is busy.
  Result<std::optional<QuickProbe>> try_probe() const;
  bool sleep(int64_t us);  // false: the probe is to end

  const std::shared_ptr<AsyncEngine> engine_;
  const IdleProbeOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
