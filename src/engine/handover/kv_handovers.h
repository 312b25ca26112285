// KvHandovers: the handover of KV between engines. It has the answers whose last delta waits until
// the KV of their prompt is in files, from which another engine continues, and it checks what
// requests are to take over from such files. While an answer waits, the prompt's blocks are kept
// from eviction; a time limit ends the wait, so that nothing is held forever. For the engine thread
// only, except prepare().
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

// The part of an engine when prefill and decode are split between engines.
struct KvHandoverOptions {
  bool gives = false;  // hands KV over to engines that decode
  bool takes = false;  // takes KV over from engines that prefill
  // A request whose KV cannot be taken over is computed from the start; if false, it fails.
  bool recomputes = false;
  // How long writing may take, and how long written files are kept from removal.
  int64_t lease_us = 30'000'000;
};

class KvHandovers {
 public:
  struct Answer {
    Choice* choice = nullptr;
    OutputDelta delta;  // the last delta of the group
  };

  // Borrows both. `files` belongs to `kv`; null: there are no files.
  KvHandovers(KvManager& kv, KvFiles* files, const KvHandoverOptions& options)
      : kv_(kv), files_(files), options_(options) {}
  ~KvHandovers();
  KvHandovers(const KvHandovers&) = delete;
  KvHandovers& operator=(const KvHandovers&) = delete;

  // Checks what a valid request says about handing over. If the KV to take over is not there, the
  // request loses its `handover`, which is counted, and is computed from the start.
  // kInvalidArgument: this engine does not do it. kUnavailable: the KV is not there and the request
  // must not be computed without it. Any thread may call it.
  Status prepare(GenerationRequest& request);
  // Checks a choice when it is first scheduled, since its KV has been loaded by then or never will
  // be. kUnavailable: it has not been loaded.
  Status check_taken(const Choice& choice, const Request* request);

  // Whether the last delta of a group whose last choice ends with this reason must go to begin().
  bool waits_for(const Group& group, FinishReason reason) const;
  // Makes an answer wait. Precondition: the request has ended, and its prompt is computed and
  // registered.
  void begin(Answer answer, const Request& request, int64_t now_us);
  // Returns the answer of a group, which no longer waits, or nullopt if it does not wait.
  std::optional<Answer> take_back(const Group& group);
  // Retries writes that had no room before, and returns the answers that are done. Their deltas say
  // what is handed over; nothing if no block is in files.
  std::vector<Answer> poll(int64_t now_us);

  void fill(KvFileStats& stats) const;

 private:
  struct Waiting {
    Answer answer;
    KvSequenceId sequence;
    BlockHold hold;
    std::vector<TokenId> tokens;  // whole blocks, at least one token less than the prompt
    int64_t until_us = 0;
  };
  bool try_end(Waiting& waiting, int64_t now_us);

  KvManager& kv_;
  KvFiles* const files_;
  const KvHandoverOptions options_;
  std::vector<Waiting> waiting_;  // oldest first
  int64_t num_handovers_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_cut_ = 0;  // handovers of only a part of the prompt
  std::atomic<int64_t> num_taken_{0}, num_missed_{0};
};

}  // namespace quire
