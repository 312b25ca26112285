#include "ranks/host_blocks/host_block_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quire {
namespace {

// Kinds of frames. The blocks of a step are in any number of kMoreBlocks and a last kBlocks.
constexpr uint32_t kBlocks = 48;
constexpr uint32_t kMoreBlocks = 49;

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

HostBlockLink::HostBlockLink(RankLinks& links, int other, Blocks blocks, int64_t max_message_bytes)
    : links_(links),
      other_(other),
      blocks_(std::move(blocks)),
      max_message_bytes_(max_message_bytes),
      thread_([this] { send_all(); }) {}

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
  std::vector<Message> messages(1);
  for (const HostBlock& block : blocks) {
    if (blocks_[static_cast<size_t>(block.pool)].data == nullptr) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, bytes_of(block));
    const BlockHeader header{static_cast<uint32_t>(block.pool), block.id.value};
    const size_t size = sizeof(header) + bytes.size();
    const size_t used = messages.back().size();
    if (used > 0 && static_cast<int64_t>(used + size) > max_message_bytes_) messages.emplace_back();
    Message& message = messages.back();
    const size_t at = message.size();
    message.resize(at + size);
    std::memcpy(message.data() + at, &header, sizeof(header));
    std::memcpy(message.data() + at + sizeof(header), bytes.data(), bytes.size());
  }
  {
    const std::lock_guard lock(mutex_);
    for (Message& message : messages) {
      const bool is_last = &message == &messages.back();
      outgoing_.push_back({is_last ? kBlocks : kMoreBlocks, std::move(message)});
    }
  }
  changed_.notify_all();
  return {};
}

void HostBlockLink::send_all() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_ending_ || !outgoing_.empty(); });
    if (is_ending_) return;
    const auto [kind, message] = std::move(outgoing_.front());
    outgoing_.pop_front();
    lock.unlock();
    const Status sent = send_frame(links_.blocks(other_), kind, message, 0);
    lock.lock();
    if (is_ending_) return;
    lock.unlock();
    if (!lost(sent).ok()) return;
  }
}

Status HostBlockLink::receive() {
  Frame frame;
  do {
    QUIRE_RETURN_IF_ERROR(lost(receive_frame(links_.blocks(other_), frame, 0)));
    if (frame.kind != kBlocks && frame.kind != kMoreBlocks) {
      return lost(data_loss("host blocks: expected a frame of kind {} or {}, got {}", kBlocks,
                            kMoreBlocks, frame.kind));
    }
    QUIRE_RETURN_IF_ERROR(lost(take(frame.payload)));
  } while (frame.kind == kMoreBlocks);
  return {};
}

Status HostBlockLink::take(std::span<const std::byte> message) {
  const auto cut_off = [&](const char* what, size_t expected) {
    return data_loss("host blocks: expected {} in {} bytes, got {}", what, expected,
                     message.size());
  };
  while (!message.empty()) {
    BlockHeader header;
    if (message.size() < sizeof(header)) return cut_off("a block's header", sizeof(header));
    std::memcpy(&header, message.data(), sizeof(header));
    message = message.subspan(sizeof(header));
    if (header.pool >= kNumKvPools) {
      return data_loss("host blocks: expected a pool in [0, {}), got {}", kNumKvPools, header.pool);
    }
    const Result<std::span<std::byte>> bytes =
        bytes_of({static_cast<KvPool>(header.pool), BlockId(header.block)});
    if (!bytes.ok()) return data_loss("{}", bytes.status().message());
    if (message.size() < bytes->size()) return cut_off("a block", bytes->size());
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
