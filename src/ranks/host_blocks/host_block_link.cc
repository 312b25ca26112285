#include "ranks/host_blocks/host_block_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quire {
namespace {

constexpr uint32_t kBlocks = 48;  // the kind of frames

// Precedes the content of a block.
struct BlockHeader {
  uint32_t pool = 0;
  int32_t block = 0;
};

bool contains(const std::vector<HostBlock>& blocks, const HostBlock& block) {
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

}  // namespace

std::vector<HostBlock> host_blocks_read(const StepPlan& plan) {
  std::vector<HostBlock> read, written;
  for (const HostBlockCopy& copy : plan.host_copies) {
    const HostBlock block{copy.pool, copy.host_block};
    if (copy.to_host) {
      written.push_back(block);
    } else if (!contains(written, block) && !contains(read, block)) {
      read.push_back(block);
    }
  }
  return read;
}

std::vector<HostBlock> host_blocks_written(const StepPlan& plan) {
  std::vector<HostBlock> written;
  for (const HostBlockCopy& copy : plan.host_copies) {
    const HostBlock block{copy.pool, copy.host_block};
    if (copy.to_host && !contains(written, block)) written.push_back(block);
  }
  return written;
}

HostBlockLink::HostBlockLink(RankLinks& links, int other, Blocks blocks)
    : links_(links), other_(other), blocks_(std::move(blocks)), thread_([this] { send_all(); }) {}

HostBlockLink::~HostBlockLink() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  links_.blocks(other_).shut_down();  // ends a call that is sending
  thread_.join();
}

Result<std::span<std::byte>> HostBlockLink::bytes_of(const HostBlock& block) const {
  const HostBlocks& pool = blocks_[static_cast<size_t>(block.pool)];
  if (pool.data == nullptr || block.id.value <= 0 || block.id.value >= pool.num_blocks)
    return internal_error("host block {} of {} blocks: expected one of [1, {})", block.id,
                          to_string(block.pool), pool.num_blocks);
  return std::span(pool.data + block.id.value * pool.block_bytes,
                   static_cast<size_t>(pool.block_bytes));
}

Status HostBlockLink::send(const std::vector<HostBlock>& blocks) {
  std::vector<std::byte> message;
  for (const HostBlock& block : blocks) {
    if (blocks_[static_cast<size_t>(block.pool)].data == nullptr) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, bytes_of(block));
    const BlockHeader header{static_cast<uint32_t>(block.pool), block.id.value};
    const size_t at = message.size();
    message.resize(at + sizeof(header) + bytes.size());
    std::memcpy(message.data() + at, &header, sizeof(header));
    std::memcpy(message.data() + at + sizeof(header), bytes.data(), bytes.size());
  }
  {
    const std::lock_guard lock(mutex_);
    outgoing_.push_back(std::move(message));
  }
  changed_.notify_all();
  return {};
}

void HostBlockLink::send_all() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_ending_ || !outgoing_.empty(); });
    if (is_ending_) return;
    const std::vector<std::byte> message = std::move(outgoing_.front());
    outgoing_.pop_front();
    lock.unlock();
    const Status sent = send_frame(links_.blocks(other_), kBlocks, message, 0);
    lock.lock();
    if (is_ending_) return;
    lock.unlock();
    if (!lost(sent).ok()) return;
  }
}

Status HostBlockLink::receive() {
  Frame frame;
  QUIRE_RETURN_IF_ERROR(lost(receive_frame(links_.blocks(other_), frame, 0)));
  if (frame.kind != kBlocks)
    return lost(data_loss("expected host blocks, got a frame of kind {}", frame.kind));
  return lost(take(frame.payload));
}

Status HostBlockLink::take(std::span<const std::byte> message) {
  while (!message.empty()) {
    BlockHeader header;
    if (message.size() < sizeof(header)) return data_loss("host blocks: the message is cut off");
    std::memcpy(&header, message.data(), sizeof(header));
    message = message.subspan(sizeof(header));
    if (header.pool >= kNumKvPools) return data_loss("host blocks: of pool {}", header.pool);
    const Result<std::span<std::byte>> bytes =
        bytes_of({static_cast<KvPool>(header.pool), BlockId(header.block)});
    if (!bytes.ok()) return data_loss("{}", bytes.status().message());
    if (message.size() < bytes->size()) return data_loss("host blocks: the message is cut off");
    std::memcpy(bytes->data(), message.data(), bytes->size());
    message = message.subspan(bytes->size());
  }
  return {};
}

Status HostBlockLink::lost(const Status& status) {
  if (status.ok()) return {};
  links_.break_at(other_, status.message());
  return links_.status();
}

}  // namespace quire
