// Measures the machine while a server is running, so that neither the start nor a request waits for
// it.
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
  std::function<void(const QuickProbe& probe)> keep;  // keeps a probe that was not disturbed
  // Makes the model with which the engine computes bounds; null: there is none for this model.
  std::function<std::shared_ptr<const CostModel>(const Hardware& hardware)> cost_model;
  int64_t period_us = 1'000'000;  // until the first probe, and between checks of a busy engine
};

// Lives as long as the engine is served. Its thread waits until the engine is idle, probes, and
// gives the engine its cost model. A probe that a request or another program disturbed is used
// until there is a better one: the probe is repeated after a pause that doubles.
class IdleProbe {
 public:
  IdleProbe(std::shared_ptr<AsyncEngine> engine, IdleProbeOptions options);
  ~IdleProbe();  // waits for a running probe
  IdleProbe(const IdleProbe&) = delete;
  IdleProbe& operator=(const IdleProbe&) = delete;

 private:
  void run();
  // Probes if the engine is idle before and after it; nullopt: the engine is busy.
  Result<std::optional<QuickProbe>> try_probe() const;
  bool sleep(int64_t us);  // false: the destructor runs

  const std::shared_ptr<AsyncEngine> engine_;
  const IdleProbeOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quire
