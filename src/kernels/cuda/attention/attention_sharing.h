// The kernel that cuts a batch finds with these functions which requests have the same blocks at the
// same positions, and makes packs of them: an item of a pack reads the keys and values of a split
// once for all of its requests. Rows are independent of each other in a tile of tensor cores, and
// splits are folded in order, so a row's bits are those of a request alone (law L4); which requests
// make a pack is a matter of speed.
//
// Requests are classified level by level: by the blocks of their first whole split, of the next one,
// and so on, until no two are in one class. Without sharing that is one level, at which each request
// reads the number of one block.
#pragma once

#include "kernels/cuda/attention/attention_device.h"

namespace quire::cuda {

inline constexpr int kCutThreads = 256;
// Requests beyond so many are in no pack.
inline constexpr int32_t kMaxSharers = 1024;

// What is kept of each request, in shared memory.
struct SharingMemory {
  int32_t* key;     // the first block of the level's split; 0: no longer with others
  int32_t* known;   // the class before the level: its leader; first, what no leader's number is
  int32_t* leader;  // the class after the level: its first request
  int32_t* size;    // of the class whose leader the request is
  int32_t* choice;  // leader of the class that the request makes packs with
  int32_t* levels;  // splits of the pack; 0: none
  float* saved;     // by that choice
  uint32_t* any;    // one word
};
inline int64_t sharing_bytes(int32_t num_reqs) {
  return (7 * std::min<int64_t>(num_reqs, kMaxSharers) + 1) * int64_t{sizeof(int32_t)};
}

// Sharing finds the packs of a batch. The whole block calls find(), once the requests that decode
// are known.
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

  // Has each request choose a class to make packs with. Returns whether any did.
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
    int32_t head = -1;  // the pack's first request; -1: the request is in none
    int32_t rank = 0;   // in the pack
    int32_t size = 0;   // of the pack
    SplitRange splits;  // that the pack reads
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

  // Where the requests of a pack begin in its list is kept by its head, once all have chosen.
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

  // Cuts the classes by the blocks of the level. Returns whether any is left of two requests.
  QUIRE_DEVICE bool classify(int32_t level) {
    ptx::sync_threads();  // nobody reads the sizes of the level before
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
  // Returns the first request of the same class as r that has the same blocks.
  QUIRE_DEVICE int32_t find_leader(int32_t r, int32_t level) const {
    const int32_t key = memory_.key[r];
    const int32_t known = memory_.known[r];
    for (int32_t q = 0; key != 0 && q < r; ++q) {
      if (memory_.key[q] == key && memory_.known[q] == known && have_same_blocks(q, r, level))
        return q;
    }
    return r;
  }

  // Has requests choose the classes of the level that save more reading than what they have chosen,
  // and begins the next level.
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
  // Returns how many splits less each request of a class reads.
  QUIRE_DEVICE float saved_splits(int32_t levels, int32_t size) const {
    const auto requests = static_cast<float>(size < most_ ? size : most_);
    return static_cast<float>(levels) * (1.0f - 1.0f / requests);
  }

  const AttentionArgs& args_;
  SharingMemory memory_;
  int32_t num_reqs_;
  int32_t most_;  // requests of a pack
};

}  // namespace quire::cuda
