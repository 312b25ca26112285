#include "ranks/rank_adapters.h"

#include <algorithm>
#include <utility>

namespace quire {

Result<std::shared_ptr<const Adapter>> LeadingAdapters::load(const std::string& name,
                                                             const std::string& path) {
  const std::lock_guard lock(loading_);
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const Adapter> adapter,
                         rank_.runner().load_adapter(name, path));
  QUIRE_RETURN_IF_ERROR(tell_others(++last_number_, path));
  QUIRE_RETURN_IF_ERROR(hear_others(adapter->content_key));
  const std::lock_guard known(mutex_);
  known_[last_number_] = adapter;
  return adapter;
}

std::span<const uint64_t> LeadingAdapters::numbers_of(const StepPlan& plan) {
  numbers_.clear();
  const auto has_one = [](const NewRequest& request) { return request.adapter != nullptr; };
  if (std::none_of(plan.new_requests.begin(), plan.new_requests.end(), has_one)) return numbers_;
  const std::lock_guard lock(mutex_);
  for (const NewRequest& request : plan.new_requests) {
    const auto is_it = [&](const auto& known) { return known.second.lock() == request.adapter; };
    const auto found = std::find_if(known_.begin(), known_.end(), is_it);
    const bool is_known = request.adapter != nullptr && found != known_.end();
    QUIRE_CHECK(is_known || request.adapter == nullptr, "an adapter of another executor");
    numbers_.push_back(is_known ? found->first : 0);
  }
  return numbers_;
}

Status LeadingAdapters::tell_others(uint64_t number, const std::string& path) {
  AdapterOrder order{.number = number, .kept = {}, .path = path};
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& known) { return known.second.expired(); });
    for (const auto& [known, adapter] : known_) order.kept.push_back(known);
  }
  std::vector<std::byte> message;
  encode_adapter_order(order, message);
  return rank_.broadcast().send(static_cast<uint32_t>(RankFrame::kLoadAdapter), message);
}

// Receives the replies of all ranks, even after an error, since each rank sends one.
Status LeadingAdapters::hear_others(const std::string& content_key) {
  Status status;
  for (int other = 1; other < rank_.process().size; ++other) {
    Frame frame;
    QUIRE_RETURN_IF_ERROR(rank_.receive(other, RankFrame::kAdapter, frame));
    QUIRE_ASSIGN_OR_RETURN(const AdapterReply reply, decode_adapter_reply(frame.payload));
    if (!status.ok()) continue;
    if (reply.code != StatusCode::kOk) {
      status = Status(reply.code, reply.text).with_context(fmt::format("rank {}", other));
    } else if (reply.text != content_key) {
      status = data_loss("rank {} has other files of the adapter", other);
    }
  }
  return status;
}

Status FollowingAdapters::load(std::span<const std::byte> bytes) {
  QUIRE_ASSIGN_OR_RETURN(AdapterOrder order, decode_adapter_order(bytes));
  wait();  // the first rank loads one at a time
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(adapters_, [&](const auto& adapter) {
      return std::find(order.kept.begin(), order.kept.end(), adapter.first) == order.kept.end();
    });
  }
  thread_ = std::thread([this, order = std::move(order)] {
    const auto adapter = rank_.runner().load_adapter("", order.path);
    AdapterReply reply;
    if (adapter.ok()) {
      reply.text = (*adapter)->content_key;
      const std::lock_guard lock(mutex_);
      adapters_[order.number] = *adapter;
    } else {
      reply = {adapter.status().code(), adapter.status().message()};
    }
    std::vector<std::byte> message;
    encode_adapter_reply(reply, message);
    (void)rank_.send(0, RankFrame::kAdapter,
                     message);  // a lost first rank is noticed elsewhere
  });
  return {};
}

Status FollowingAdapters::give_adapters(DecodedStep& step) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < step.adapters.size(); ++i) {
    if (step.adapters[i] == 0) continue;
    const auto found = adapters_.find(step.adapters[i]);
    if (found == adapters_.end())
      return data_loss("the first rank names adapter {}, which is not here", step.adapters[i]);
    step.plan.new_requests[i].adapter = found->second;
  }
  return {};
}

void FollowingAdapters::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace quire
