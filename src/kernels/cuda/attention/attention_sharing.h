// Finds which requests of a batch have the same blocks at the same positions, for the kernel that
// cuts the batch, and groups these requests into packs: an item of a pack reads the keys and values
// of a split once for all requests of the pack. Rows are independent of each other in a tile of
// tensor cores, and splits are folded in order, so a row has the same bits as if its request were
// alone (law L4); which requests form a pack only affects speed.
//
// Requests are classified level by level: by the blocks of their first whole split, then of the
// next one, and so on, until every class has one request. Without sharing that takes one level, at
// which each request reads one block id.
#pragma once

#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

inline constexpr int kCutThreads = 256;
// Requests from this number on are in no pack.
inline constexpr int32_t kMaxSharers = 1024;

// Arrays in shared memory, with an entry for each request.
struct SharingMemory {
  int32_t* key;     // first block of the level's split; 0: the request is alone
  int32_t* known;   // the leader of its class at the level before; at first a negative number
  int32_t* leader;  // the first request of its class at this level
  int32_t* size;    // of the class whose leader this request is
  int32_t* choice;  // leader of the class with which the request forms packs
  int32_t* levels;  // splits that the pack reads; 0: there is no pack
  float* saved;     // splits that this choice saves
  uint32_t* any;    // a single word: whether any class has two requests
};
inline int64_t sharing_bytes(int32_t num_reqs) {
  return (7 * std::min<int64_t>(num_reqs, kMaxSharers) + 1) * int64_t{sizeof(int32_t)};
}

// Finds the packs of a batch. The whole block calls find(), once decode_items has been written.
class Sharing {
 public:
  QUIRE_DEVICE Sharing(const AttentionArgs& args, uint8_t* memory)
      : args_(args),
        num_reqs_(args.num_reqs < kMaxSharers ? args.num_reqs : kMaxSharers),
        most_(args.cut.pack_rows / args.cut.group) {
    auto* first = reinterpret_cast<int32_t*>(memory);
    memory_ = {first,
               first + num_reqs_,
               first + 2 * num_reqs_,
               first + 3 * num_reqs_,
               first + 4 * num_reqs_,
               first + 5 * num_reqs_,
               reinterpret_cast<float*>(first + 6 * num_reqs_),
               reinterpret_cast<uint32_t*>(first + 7 * num_reqs_)};
  }

  // Chooses for each request a class to form packs with. Returns whether any request has one.
  QUIRE_DEVICE bool find() {
    for_each_request([&](int32_t r) {
      memory_.known[r] = -1 - whole(r).begin;
      memory_.key[r] = takes_part(r) ? first_block(r, 0) : 0;
      memory_.levels[r] = 0;
    });
    int32_t level = 0;
    for (; classify(level); ++level) choose(level);
    return level > 0;
  }

  struct Member {
    int32_t head = -1;  // the pack's first request; -1: the request is in no pack
    int32_t rank = 0;   // in the pack
    int32_t size = 0;   // of the pack
    SplitRange splits;  // the splits that the pack reads
  };
  QUIRE_DEVICE Member member(int32_t r) const {
    if (r >= num_reqs_ || memory_.levels[r] == 0) return {};
    int32_t before = 0;
    int32_t total = 0;
    for (int32_t q = 0; q < num_reqs_; ++q) {
      if (!are_together(q, r)) continue;
      if (q < r) ++before;
      ++total;
    }
    Member member{.rank = before % most_};
    const int32_t first = before - member.rank;
    member.size = total - first < most_ ? total - first : most_;
    if (member.size < 2) return {};
    for (int32_t q = 0, number = 0; member.head < 0; ++q) {
      if (are_together(q, r) && number++ == first) member.head = q;
    }
    const int32_t begin = whole(r).begin;
    member.splits = {begin, begin + memory_.levels[r]};
    return member;
  }

  // Stores where the requests of a pack begin in pack_requests, in an array that is free once all
  // requests have chosen a class.
  QUIRE_DEVICE void note_begin(int32_t head, int32_t begin) const { memory_.key[head] = begin; }
  QUIRE_DEVICE int32_t begin_of(const Member& member) const { return memory_.key[member.head]; }

 private:
  template <typename F>
  QUIRE_DEVICE void for_each_request(F&& f) const {
    for (int32_t r = ptx::thread_index(); r < num_reqs_; r += kCutThreads) f(r);
  }
  QUIRE_DEVICE SplitRange whole(int32_t r) const {
    return whole_splits(args_.cut, args_.seq_lens[r]);
  }
  QUIRE_DEVICE bool takes_part(int32_t r) const {
    const int32_t query_len = args_.query_start_loc[r + 1] - args_.query_start_loc[r];
    return query_len == 1 && args_.lists.decode_items[r + 1] > args_.lists.decode_items[r];
  }
  QUIRE_DEVICE const int32_t* blocks(int32_t r, int32_t level) const {
    const int32_t position = (whole(r).begin + level) * args_.cut.split_size;
    return args_.block_table + r * args_.max_blocks + (position >> args_.block_shift);
  }
  QUIRE_DEVICE int32_t first_block(int32_t r, int32_t level) const {
    return level < whole(r).count() ? *blocks(r, level) : 0;
  }
  QUIRE_DEVICE bool have_same_blocks(int32_t q, int32_t r, int32_t level) const {
    const int32_t count = args_.cut.split_size >> args_.block_shift;  // 0: a block is longer
    const int32_t* const of_q = blocks(q, level);
    const int32_t* const of_r = blocks(r, level);
    bool same = true;
#pragma unroll 8
    for (int32_t i = 1; i < count; ++i) same = same && of_q[i] == of_r[i];
    return same;
  }
  QUIRE_DEVICE bool are_together(int32_t q, int32_t r) const {
    return memory_.levels[q] == memory_.levels[r] && memory_.choice[q] == memory_.choice[r];
  }

  // Divides the classes by the blocks of the level. Returns whether any class still has two
  // requests.
  QUIRE_DEVICE bool classify(int32_t level) {
    ptx::sync_threads();  // sizes of the level before are no longer read
    for_each_request([&](int32_t r) { memory_.size[r] = 0; });
    if (ptx::thread_index() == 0) *memory_.any = 0;
    ptx::sync_threads();
    for_each_request([&](int32_t r) {
      const int32_t leader = find_leader(r, level);
      memory_.leader[r] = leader;
      ptx::atomic_add(memory_.size + leader, 1);
      if (leader != r) ptx::atomic_or(memory_.any, 1u);
    });
    ptx::sync_threads();
    return *memory_.any != 0;
  }
  // Returns the first request of r's class that has the same blocks as r.
  QUIRE_DEVICE int32_t find_leader(int32_t r, int32_t level) const {
    const int32_t key = memory_.key[r];
    const int32_t known = memory_.known[r];
    for (int32_t q = 0; key != 0 && q < r; ++q) {
      if (memory_.key[q] == key && memory_.known[q] == known && have_same_blocks(q, r, level))
        return q;
    }
    return r;
  }

  // Lets each request choose its class at this level if that saves more reading than its earlier
  // choice, and prepares the next level.
  QUIRE_DEVICE void choose(int32_t level) {
    for_each_request([&](int32_t r) {
      const int32_t leader = memory_.leader[r];
      const int32_t size = memory_.size[leader];
      const bool shares = memory_.key[r] != 0 && size > 1;
      memory_.known[r] = leader;
      memory_.key[r] = shares ? first_block(r, level + 1) : 0;
      const float saved = saved_splits(level + 1, size);
      if (!shares || (memory_.levels[r] > 0 && saved <= memory_.saved[r])) return;
      memory_.choice[r] = leader;
      memory_.levels[r] = level + 1;
      memory_.saved[r] = saved;
    });
  }
  // Returns how many fewer splits each request of a class reads.
  QUIRE_DEVICE float saved_splits(int32_t levels, int32_t size) const {
    const auto requests = static_cast<float>(size < most_ ? size : most_);
    return static_cast<float>(levels) * (1.0f - 1.0f / requests);
  }

  const AttentionArgs& args_;
  SharingMemory memory_;
  int32_t num_reqs_;
  int32_t most_;  // requests in a pack
};

}  // namespace quire::cuda
