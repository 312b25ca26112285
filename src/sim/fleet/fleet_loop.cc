#include "sim/fleet/fleet_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "sim/fleet/route_speed.h"

namespace quire::sim {
namespace {

// The size of a piece of a prompt, and the number of pieces per engine, that quire route remembers.
constexpr size_t kPieceTokens = 64;
constexpr size_t kMostRememberedPieces = 65'536;

}  // namespace

FleetLoop::FleetLoop(const Workload& workload, const FleetSpec& spec, const RunObserver& observer)
    : workload_(workload),
      spec_(spec),
      observer_(observer),
      router_(spec.router),
      remembered_(kMostRememberedPieces) {
  result_.records.resize(workload.requests.size());
  result_.stats.timeline = Timeline(spec.slice_ns);
  sinks_ = {.workload = &workload,
            .records = &result_.records,
            .stats = &result_.stats,
            .on_leg_done = [this](int32_t replica, const Delivery& leg,
                                  int64_t now_ns) { on_leg_done(replica, leg, now_ns); },
            .on_step = observer.on_step};
  for (const PoolSpec& pool : spec.pools) {
    replica_specs_.push_back(pool.replica);
    // Routers that look into caches must see them as they are at every step.
    if (looks_into_caches()) replica_specs_.back().fast_forward = false;
    split_ = split_ || pool.role != Role::kBoth;
  }
  pools_.resize(spec.pools.size());
  next_turn_.assign(workload.requests.size(), -1);
}

Status FleetLoop::add_replica(int32_t pool, Life life, int64_t now_ns) {
  const auto index = static_cast<int32_t>(members_.size());
  QUIRE_ASSIGN_OR_RETURN(auto replica,
                         Replica::create(index, replica_specs_[static_cast<size_t>(pool)], sinks_));
  Member member{.pool = pool, .life = life, .since_ns = now_ns};
  if (reads_speed(spec_.router.routing)) {
    member.speed = route_speed(replica->spec(), replica->num_kv_tokens());
  }
  member.replica = std::move(replica);
  members_.push_back(std::move(member));
  result_.replicas.push_back({.pool = pool});
  events_.add(index, {});
  if (life == Life::kActive) pools_[static_cast<size_t>(pool)].active.push_back(index);
  int32_t num_on = 0;
  for (const Member& m : members_) num_on += m.life != Life::kOff;
  result_.most_replicas = std::max(result_.most_replicas, num_on);
  return {};
}

Status FleetLoop::start() {
  for (size_t p = 0; p < spec_.pools.size(); ++p) {
    const PoolSpec& pool = spec_.pools[p];
    for (int32_t i = 0; i < pool.num_replicas; ++i) {
      QUIRE_RETURN_IF_ERROR(add_replica(static_cast<int32_t>(p), Life::kActive, 0));
    }
    if (pool.autoscale.max_replicas > 0) {
      push({.ns = pool.autoscale.interval_ns,
            .kind = Outside::kScale,
            .target = static_cast<int32_t>(p)});
    }
  }
  if (spec_.router.stale_ns > 0) {
    push({.ns = spec_.router.stale_ns, .kind = Outside::kLook});
  }
  for (size_t i = 0; i < workload_.requests.size(); ++i) {
    const int32_t previous = workload_.requests[i].previous;
    if (previous >= 0) next_turn_[static_cast<size_t>(previous)] = static_cast<int32_t>(i);
  }
  if (workload_.closed_loop) {
    for (int32_t i = 0; i < workload_.closed_loop->concurrency; ++i) issue_next(0);
  }
  return {};
}

void FleetLoop::push(OutsideEvent event) {
  event.order = num_pushed_++;
  outside_.push(event);
}

// In a closed loop, sends the first request of the next session.
void FleetLoop::issue_next(int64_t now_ns) {
  while (next_arrival_ < workload_.requests.size() &&
         workload_.requests[next_arrival_].previous >= 0) {
    ++next_arrival_;
  }
  if (next_arrival_ >= workload_.requests.size()) return;
  push({.ns = now_ns + workload_.requests[next_arrival_].delay_ns,
        .kind = Outside::kArrival,
        .target = static_cast<int32_t>(next_arrival_)});
  ++next_arrival_;
}

Result<RunResult> FleetLoop::run() {
  QUIRE_RETURN_IF_ERROR(start());
  const auto total = static_cast<int64_t>(workload_.requests.size());
  while (num_done_ < total && failure_.ok()) {
    if (!workload_.closed_loop) {
      while (next_arrival_ < workload_.requests.size() &&
             workload_.requests[next_arrival_].previous >= 0) {
        ++next_arrival_;
      }
    }
    const bool has_arrival = !workload_.closed_loop && next_arrival_ < workload_.requests.size();
    const int64_t arrival_ns = has_arrival ? workload_.requests[next_arrival_].arrival_ns : kNever;
    const int64_t outside_ns = outside_.empty() ? kNever : outside_.top().ns;
    const int32_t replica = events_.top();
    const ReplicaEvent event = replica < 0 ? ReplicaEvent{} : events_.event(replica);
    const int64_t first_ns = std::min(arrival_ns, outside_ns);
    const bool inside =
        event.ns < first_ns || (event.ns == first_ns && event.phase == EventPhase::kFinish);
    const int64_t ns = inside ? event.ns : first_ns;
    if (ns == kNever || ns > spec_.stop_ns) break;
    now_ns_ = ns;
    if (inside) {
      members_[static_cast<size_t>(replica)].replica->process();
      events_.update(replica, members_[static_cast<size_t>(replica)].replica->next());
    } else if (arrival_ns <= outside_ns) {
      arrive(static_cast<int32_t>(next_arrival_++), arrival_ns);
    } else {
      const OutsideEvent outside = outside_.top();
      outside_.pop();
      if (!step_outside(outside)) break;
    }
  }
  QUIRE_RETURN_IF_ERROR(failure_);
  return finish();
}

// Returns false when the run cannot go on.
bool FleetLoop::step_outside(const OutsideEvent& event) {
  switch (event.kind) {
    case Outside::kArrival:
      arrive(event.target, event.ns);
      break;
    case Outside::kTransfer:
      if (event.leg.num_generated > 0) {
        --members_[static_cast<size_t>(event.target)].num_incoming;
        deliver(event.target, event.leg, event.ns);
      } else {
        send(event.leg, split_ ? Role::kPrefill : Role::kBoth, event.ns);
      }
      break;
    case Outside::kActivate: {
      Member& member = members_[static_cast<size_t>(event.target)];
      if (member.life != Life::kProvisioning) break;
      member.life = Life::kActive;
      pools_[static_cast<size_t>(member.pool)].active.push_back(event.target);
      break;
    }
    case Outside::kScale:
      failure_ = scale(event.target, event.ns);
      return failure_.ok();
    case Outside::kLook:
      look();
      push({.ns = event.ns + spec_.router.stale_ns, .kind = Outside::kLook});
      break;
  }
  return true;
}

void FleetLoop::look() {
  for (Member& member : members_) member.seen = member.replica->load();
}

// --- Requests ---

void FleetLoop::arrive(int32_t request, int64_t now_ns) {
  const SimRequest& source = workload_.requests[static_cast<size_t>(request)];
  RequestRecord& record = result_.records[static_cast<size_t>(request)];
  record.arrival_ns = now_ns;
  record.input_tokens = source.input_tokens;
  ++result_.stats.timeline.at(now_ns).num_arrivals;
  const Delivery leg{.request = request,
                     .prompt_tokens = source.input_tokens,
                     .output_tokens = split_ ? 1 : source.output_tokens};
  if (spec_.admission_ns > 0) {
    push({.ns = now_ns + spec_.admission_ns, .kind = Outside::kTransfer, .leg = leg});
  } else {
    send(leg, split_ ? Role::kPrefill : Role::kBoth, now_ns);
  }
}

bool FleetLoop::has_role(int32_t pool, Role role) const {
  return spec_.pools[static_cast<size_t>(pool)].role == role;
}

void FleetLoop::find_targets(Role role) {
  targets_.clear();
  for (size_t p = 0; p < pools_.size(); ++p) {
    if (!has_role(static_cast<int32_t>(p), role)) continue;
    for (const int32_t i : pools_[p].active) {
      const Member& member = members_[static_cast<size_t>(i)];
      const RouteLoad load = spec_.router.routing == Routing::kOracle ? member.replica->exact_load()
                             : spec_.router.stale_ns > 0              ? member.seen
                                                                      : member.replica->load();
      targets_.push_back(
          {.replica = i, .name = static_cast<uint32_t>(i), .load = load, .speed = &member.speed});
    }
  }
  QUIRE_CHECK(!targets_.empty(), "no replica takes requests");
}

bool FleetLoop::looks_into_caches() const {
  const bool remembers =
      spec_.router.remembers_prefixes && spec_.router.routing != Routing::kOracle;
  return reads_caches(spec_.router.routing) && !remembers;
}

// Chooses the replica that gets the leg. If KV has to be transferred first, the leg arrives there
// later.
void FleetLoop::send(Delivery leg, Role role, int64_t now_ns) {
  find_targets(role);
  const SimRequest& source = workload_.requests[static_cast<size_t>(leg.request)];
  if (reads_caches(spec_.router.routing)) workload_.fill_prompt(source, prompt_);
  const bool remembers = reads_caches(spec_.router.routing) && !looks_into_caches();
  if (remembers) chain_ = prefix_chain(0, std::span<const TokenId>(prompt_), kPieceTokens);
  const RouteRequest request{.session = source.session,
                             .prompt_tokens = leg.prompt_tokens,
                             .output_tokens = leg.output_tokens};
  const RouteChoice choice = router_.choose(targets_, request, [&](int32_t replica) {
    if (leg.kv_tokens > 0) return leg.prompt_tokens - 1;  // its KV is transferred with it
    if (remembers) return remembered_.match(chain_, replica) * static_cast<int32_t>(kPieceTokens);
    return members_[static_cast<size_t>(replica)].replica->probe(prompt_);
  });
  const int32_t chosen = targets_[choice.target].replica;
  if (remembers) remembered_.note(chain_, chosen);
  leg.prefill_us = choice.prefill_us;
  if (leg.num_generated > 0) {
    ++members_[static_cast<size_t>(chosen)].num_incoming;
    push({.ns = now_ns, .kind = Outside::kTransfer, .target = chosen, .leg = leg});
    return;
  }
  deliver(chosen, leg, now_ns);
}

void FleetLoop::deliver(int32_t replica, const Delivery& leg, int64_t now_ns) {
  Member& member = members_[static_cast<size_t>(replica)];
  ++pools_[static_cast<size_t>(member.pool)].in_flight;
  member.replica->deliver(leg, now_ns);
  events_.update(replica, member.replica->next());
}

void FleetLoop::on_leg_done(int32_t replica, const Delivery& leg, int64_t now_ns) {
  Member& member = members_[static_cast<size_t>(replica)];
  --pools_[static_cast<size_t>(member.pool)].in_flight;
  const SimRequest& source = workload_.requests[static_cast<size_t>(leg.request)];
  const RequestRecord& record = result_.records[static_cast<size_t>(leg.request)];
  turn_off_if_idle(replica, now_ns);
  const bool was_prefill = split_ && leg.num_generated == 0;
  if (was_prefill && record.outcome == Outcome::kUnfinished &&
      record.output_tokens < source.output_tokens) {
    return transfer(replica, leg, now_ns);
  }
  end_request(leg.request, now_ns);
}

// Sends the KV of a prefill leg, which has returned the first token, to a decode replica.
void FleetLoop::transfer(int32_t replica, const Delivery& leg, int64_t now_ns) {
  const SimRequest& source = workload_.requests[static_cast<size_t>(leg.request)];
  Member& member = members_[static_cast<size_t>(replica)];
  const double bytes =
      leg.prompt_tokens * replica_specs_[static_cast<size_t>(member.pool)].kv_bytes_per_token;
  const auto duration_ns = std::llround(bytes / spec_.transfer.bytes_per_s * 1e9);
  member.link_free_ns = std::max(member.link_free_ns, now_ns) + duration_ns;
  result_.transferred_tokens += leg.prompt_tokens;
  send({.request = leg.request,
        .prompt_tokens = leg.prompt_tokens + 1,
        .output_tokens = source.output_tokens - 1,
        .num_generated = 1,
        .kv_tokens = leg.prompt_tokens,
        .last_token_ns = now_ns},
       Role::kDecode, member.link_free_ns + spec_.transfer.latency_ns);
}

void FleetLoop::end_request(int32_t request, int64_t now_ns) {
  RequestRecord& record = result_.records[static_cast<size_t>(request)];
  if (record.outcome == Outcome::kUnfinished) {
    record.outcome = Outcome::kCompleted;
    router_.note_output(record.output_tokens);
  }
  ++result_.stats.timeline.at(now_ns).num_finished;
  ++num_done_;
  if (observer_.progress && (num_done_ & 0xfff) == 0) {
    observer_.progress(num_done_, static_cast<int64_t>(workload_.requests.size()));
  }
  if (const int32_t next = next_turn_[static_cast<size_t>(request)]; next >= 0) {
    const int64_t think_ns = workload_.requests[static_cast<size_t>(next)].arrival_ns;
    push({.ns = now_ns + think_ns, .kind = Outside::kArrival, .target = next});
  } else if (workload_.closed_loop) {
    issue_next(now_ns + workload_.closed_loop->think_ns);
  }
}

// --- Autoscaling ---

Status FleetLoop::scale(int32_t pool_index, int64_t now_ns) {
  const PoolSpec& pool = spec_.pools[static_cast<size_t>(pool_index)];
  PoolState& state = pools_[static_cast<size_t>(pool_index)];
  const AutoscaleOptions& options = pool.autoscale;
  int32_t num_up = 0;
  for (const Member& m : members_) {
    num_up += m.pool == pool_index && (m.life == Life::kActive || m.life == Life::kProvisioning);
  }
  const auto wanted = static_cast<int32_t>(
      std::clamp<double>(std::ceil(static_cast<double>(state.in_flight) / options.target_requests),
                         pool.num_replicas, options.max_replicas));
  for (; num_up < wanted; ++num_up) {
    QUIRE_RETURN_IF_ERROR(add_replica(pool_index, Life::kProvisioning, now_ns));
    push({.ns = now_ns + options.provisioning_ns,
          .kind = Outside::kActivate,
          .target = static_cast<int32_t>(members_.size()) - 1});
  }
  if (num_up <= wanted) {
    state.too_many_since_ns = -1;
  } else if (state.too_many_since_ns < 0) {
    state.too_many_since_ns = now_ns;
  } else if (now_ns - state.too_many_since_ns >= options.scale_down_ns) {
    drain(pool_index, num_up - wanted, now_ns);
    state.too_many_since_ns = -1;
  }
  push({.ns = now_ns + options.interval_ns, .kind = Outside::kScale, .target = pool_index});
  return {};
}

// The least loaded replicas go first.
void FleetLoop::drain(int32_t pool_index, int32_t count, int64_t now_ns) {
  std::vector<int32_t>& active = pools_[static_cast<size_t>(pool_index)].active;
  for (; count > 0 && active.size() > 1; --count) {
    const auto least = std::min_element(active.begin(), active.end(), [this](int32_t a, int32_t b) {
      return members_[static_cast<size_t>(a)].replica->load().num_requests <
             members_[static_cast<size_t>(b)].replica->load().num_requests;
    });
    const int32_t replica = *least;
    active.erase(least);
    members_[static_cast<size_t>(replica)].life = Life::kDraining;
    turn_off_if_idle(replica, now_ns);
  }
}

void FleetLoop::turn_off_if_idle(int32_t replica, int64_t now_ns) {
  Member& member = members_[static_cast<size_t>(replica)];
  if (member.life != Life::kDraining || member.num_incoming > 0 ||
      member.replica->load().num_requests > 0) {
    return;
  }
  member.life = Life::kOff;
  result_.replicas[static_cast<size_t>(replica)].paid_ns = now_ns - member.since_ns;
}

RunResult FleetLoop::finish() {
  result_.end_ns = now_ns_;
  for (size_t i = 0; i < members_.size(); ++i) {
    ReplicaRun& run = result_.replicas[i];
    run.counters = members_[i].replica->counters();
    if (members_[i].life != Life::kOff) run.paid_ns = now_ns_ - members_[i].since_ns;
  }
  return std::move(result_);
}

}  // namespace quire::sim
