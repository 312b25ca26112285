#include "ranks/host_blocks/others_host_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace quire {

Result<HostBlockCopies> OthersHostBlocks::take(int other, std::span<const std::byte> bytes,
                                               const KvLayout& layout, const KvPlan& plan) {
  HostBlockOffers offers;
  if (bytes.size() != sizeof(offers))
    return data_loss("expected offers of memory in {} bytes, got {}", sizeof(offers), bytes.size());
  std::memcpy(offers.data(), bytes.data(), sizeof(offers));
  HostBlockCopies copies = {};
  HostBlockLink::Blocks copied;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (plan.num_host(pool) < 2 || !layout.spec.uses(pool)) continue;
    const auto at = static_cast<size_t>(pool);
    const int64_t block_bytes = layout.spec.pool(pool).block_bytes;
    const int64_t num_bytes = plan.num_host(pool) * block_bytes;
    Result<SharedMemory> memory = SharedMemory::open(offers[at]);
    if (memory.status().code() == StatusCode::kNotFound) {
      copies[at] = 1;
      memory = SharedMemory::create(num_bytes);
    } else if (offers[at].num_bytes != num_bytes) {
      return data_loss("expected host blocks of {} bytes, got {}", num_bytes, offers[at].num_bytes);
    }
    QUIRE_RETURN_IF_ERROR(memory.status());
    const HostBlocks blocks{.data = memory->bytes().data(),
                            .block_bytes = block_bytes,
                            .num_blocks = plan.num_host(pool),
                            .strips = layout.strips(pool)};
    if (copies[at] != 0) copied[at] = blocks;
    blocks_.push_back({pool, blocks, *std::move(memory)});
  }
  if (copies == HostBlockCopies{}) return copies;
  log_info("rank {} shares no memory with this one: its KV goes to and from files over TCP", other);
  copies_.push_back(std::make_unique<HostBlockLink>(links_, other, std::move(copied)));
  return copies;
}

void OthersHostBlocks::add_to(KvHostMemory& memory) const {
  for (const Blocks& blocks : blocks_) memory.at(blocks.pool).push_back(blocks.blocks);
}

// Leaves out blocks that a step under way writes: their new content is not here yet, and the other
// ranks already have it.
Status OthersHostBlocks::begin_step(const StepPlan& plan) {
  if (copies_.empty()) return {};
  std::vector<HostBlock> read = host_blocks_read(plan);
  const bool reads = !read.empty();
  for (const std::vector<HostBlock>& written : written_) {
    std::erase_if(read, [&](const HostBlock& block) {
      return std::find(written.begin(), written.end(), block) != written.end();
    });
  }
  written_.push_back(host_blocks_written(plan));
  if (!reads) return {};
  for (const auto& link : copies_) QUIRE_RETURN_IF_ERROR(link->send(read));
  return {};
}

Status OthersHostBlocks::end_step() {
  if (copies_.empty()) return {};
  const std::vector<HostBlock> written = std::move(written_.front());
  written_.pop_front();
  if (written.empty()) return {};
  for (const auto& link : copies_) QUIRE_RETURN_IF_ERROR(link->receive());
  return {};
}

}  // namespace quire
