#include "facade/idle_probe.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "engine/observe/engine_stats.h"
#include "roofline/model/cost_model.h"

namespace quire {

IdleProbe::IdleProbe(std::shared_ptr<AsyncEngine> engine, IdleProbeOptions options)
    : engine_(std::move(engine)), options_(std::move(options)), thread_([this] { run(); }) {}

IdleProbe::~IdleProbe() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool IdleProbe::sleep(int64_t us) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, std::chrono::microseconds(us), [&] { return stopping_; });
}

Result<std::optional<QuickProbe>> IdleProbe::try_probe() const {
  const EngineStats before = engine_->stats();
  if (before.num_requests_running > 0 || engine_->has_waiting()) return std::optional<QuickProbe>();
  QUIRE_ASSIGN_OR_RETURN(QuickProbe probe, options_.probe());
  probe.disturbed |= engine_->stats().requests_received != before.requests_received;
  return std::optional(std::move(probe));
}

void IdleProbe::run() {
  constexpr int64_t kLongestPausePeriods = 600;
  int64_t pause_us = options_.period_us;
  bool has_model = false;
  while (sleep(pause_us)) {
    Result<std::optional<QuickProbe>> probe = try_probe();
    if (!probe.ok()) {
      log_warn("{}: bounds of steps are left out", probe.status().message());
      return;
    }
    if (!*probe) continue;
    const bool disturbed = (*probe)->disturbed;
    if (!disturbed || !has_model) {
      const Hardware& hardware = (*probe)->hardware;
      std::shared_ptr<const CostModel> model = options_.cost_model(hardware);
      if (model == nullptr) return;
      engine_->set_cost_model(std::move(model));
      has_model = true;
      log_info("measured {}: reads {:.1f} GB/s{}", hardware.description,
               hardware.memory_bytes_per_s * 1e-9,
               disturbed ? ", beside other work; measured again later" : "");
    }
    if (!disturbed) return options_.keep(**probe);
    pause_us = std::min(2 * pause_us, kLongestPausePeriods * options_.period_us);
  }
}

}  // namespace quire
