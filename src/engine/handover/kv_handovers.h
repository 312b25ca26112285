// KvHandovers: answers whose last delta waits until the KV of their prompt lies in files, from which
// another engine goes on, and what requests are to take over from there. While an answer waits, the
// prompt's blocks are kept from eviction; a time limit ends the wait, so that nothing is held for ever.
// Engine thread only, but for check().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/request.h"
#include "engine/choices/group.h"
#include "engine/output/generation.h"
#include "kv/kv_manager.h"

namespace quire {

// What an engine does of the work that prefill and decode share between engines.
struct KvHandoverOptions {
  bool gives = false;  // to engines that decode
  bool takes = false;  // from engines that prefill
  // A request whose KV cannot be taken over is computed from the start; else it fails.
  bool recomputes = false;
  // How long writing may take, and how long what was written is kept from making room for others.
  int64_t lease_us = 30'000'000;
};

class KvHandovers {
 public:
  struct Answer {
    Choice* choice = nullptr;
    OutputDelta delta;  // the group's last
  };

  // Borrows both. `files`: of `kv`; null: there are none.
  KvHandovers(KvManager& kv, KvFiles* files, const KvHandoverOptions& options)
      : kv_(kv), files_(files), options_(options) {}
  ~KvHandovers();
  KvHandovers(const KvHandovers&) = delete;
  KvHandovers& operator=(const KvHandovers&) = delete;

  // Whether this engine does what a valid request says of handing over, and has the KV that it is
  // to take over; where it has not, the request may do without. kInvalidArgument: it does not.
  // kUnavailable: it has not. Any thread may call it.
  Status check(GenerationRequest& request);
  // The choice is scheduled for the first time: what was to come for it has come, or never will.
  // kUnavailable: it has not.
  Status check_taken(const Choice& choice, const Request* request);

  // Whether the last delta of the group, whose last choice ends like that, is for begin().
  bool waits_for(const Group& group, FinishReason reason) const;
  // The request has ended and its prompt is computed and registered.
  void begin(Answer answer, const Request& request, int64_t now_us);
  // Returns the answer of a group that has stopped waiting, or nullopt when it does not wait.
  std::optional<Answer> take_back(const Group& group);
  // Asks for writing what could not be written yet, and returns answers that are done: their delta
  // says what is handed over, nothing where no block is.
  std::vector<Answer> poll(int64_t now_us);

  void fill(KvFileStats& stats) const;

 private:
  struct Waiting {
    Answer answer;
    KvSequenceId sequence;
    BlockHold hold;
    std::vector<TokenId> tokens;  // in whole blocks, at least one token less than the prompt
    int64_t until_us = 0;
  };
  bool try_end(Waiting& waiting, int64_t now_us);

  KvManager& kv_;
  KvFiles* const files_;
  const KvHandoverOptions options_;
  std::vector<Waiting> waiting_;  // oldest first
  int64_t num_handovers_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_cut_ = 0;  // handovers of less than what there was
  std::atomic<int64_t> num_taken_{0}, num_missed_{0};
};

}  // namespace quire
