#include "ranks/rank_process.h"

#include <cstring>
#include <utility>

#include "ranks/host_blocks/others_host_blocks.h"
#include "ranks/loaded_rank.h"
#include "ranks/plan_codec.h"
#include "ranks/rank_adapters.h"

namespace quire {
namespace {

// The loop of a rank other than the first. Each object is for one call of run().
class Follower {
 public:
  explicit Follower(std::unique_ptr<LoadedRank> rank) : rank_(std::move(rank)), adapters_(*rank_) {}

  Status run() {
    const int64_t bytes = rank_->available_kv_bytes();
    QUIRE_RETURN_IF_ERROR(rank_->send(0, RankFrame::kReady, std::as_bytes(std::span(&bytes, 1))));
    for (Frame frame;;) {
      QUIRE_RETURN_IF_ERROR(rank_->broadcast().receive(frame));
      if (frame.kind == static_cast<uint32_t>(RankFrame::kEnd)) return {};
      QUIRE_RETURN_IF_ERROR(obey(frame));
      QUIRE_RETURN_IF_ERROR(rank_->links().status());
    }
  }

 private:
  Status obey(const Frame& frame) {
    switch (static_cast<RankFrame>(frame.kind)) {
      case RankFrame::kInitialize: {
        QUIRE_ASSIGN_OR_RETURN(const KvPlan plan, decode_kv_plan(frame.payload));
        QUIRE_RETURN_IF_ERROR(rank_->runner().initialize(plan));
        const HostBlockOffers offers = {rank_->runner().offer_of_host_blocks(KvPool::kAttention),
                                        rank_->runner().offer_of_host_blocks(KvPool::kState)};
        QUIRE_RETURN_IF_ERROR(rank_->send(0, RankFrame::kDone, std::as_bytes(std::span(offers))));
        return link_host_blocks();
      }
      case RankFrame::kDiscardKv:
        rank_->runner().discard_kv();
        return {};
      case RankFrame::kStep:
        QUIRE_RETURN_IF_ERROR(decode_step(frame.payload, step_));
        return run_step();
      case RankFrame::kLoadAdapter:
        return adapters_.load(frame.payload);
      default:
        return data_loss("the first rank sent a frame of kind {}", frame.kind);
    }
  }

  Status run_step() {
    const StepPlan& plan = step_.plan;
    QUIRE_RETURN_IF_ERROR(adapters_.give_adapters(step_));
    rank_->runner().follow(step_.before);
    if (host_blocks_ != nullptr && !host_blocks_read(plan).empty())
      QUIRE_RETURN_IF_ERROR(host_blocks_->receive());
    Result<StepResult> result = rank_->run(plan);
    // A step that fails does so on every rank, and the first rank reports it.
    if (result.ok()) rank_->runner().recycle(std::move(*result));
    if (host_blocks_ == nullptr) return {};
    const std::vector<HostBlock> written = host_blocks_written(plan);
    return written.empty() ? Status() : host_blocks_->send(written);
  }

  // Receives from the first rank the pools of which it keeps copies, and links those.
  Status link_host_blocks() {
    Frame frame;
    QUIRE_RETURN_IF_ERROR(rank_->receive(0, RankFrame::kHostBlocks, frame));
    const std::vector<std::byte>& payload = frame.payload;
    HostBlockCopies copies;
    if (payload.size() != sizeof(copies))
      return data_loss("expected what is copied in {} bytes, got {}", sizeof(copies),
                       payload.size());
    std::memcpy(copies.data(), payload.data(), sizeof(copies));
    if (copies == HostBlockCopies{}) return {};
    KvHostMemory memory = rank_->runner().host_memory();
    HostBlockLink::Blocks blocks;
    for (size_t pool = 0; pool < kNumKvPools; ++pool) {
      if (copies[pool] != 0 && !memory.pools[pool].empty())
        blocks[pool] = std::move(memory.pools[pool].front());
    }
    host_blocks_ = std::make_unique<HostBlockLink>(rank_->links(), 0, std::move(blocks));
    return {};
  }

  std::unique_ptr<LoadedRank> rank_;
  FollowingAdapters adapters_;
  DecodedStep step_;
  std::unique_ptr<HostBlockLink> host_blocks_;  // if the first rank keeps copies of some
};

}  // namespace

Status follow_first_rank(const ModelRunnerOptions& options, const RankProcess& process) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedRank> rank, LoadedRank::load(options, process));
  const Status status = Follower(std::move(rank)).run();
  return status.with_context(fmt::format("rank {} of {}", process.rank, process.size));
}

}  // namespace quire
