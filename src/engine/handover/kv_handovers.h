// KvHandovers: answers whose last delta waits until the KV of their prompt lies in files, from which
// another engine goes on. Meanwhile the prompt's blocks are kept from eviction; a time limit ends the
// wait, so that nothing is held for ever. Engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

  // Borrows `kv`. `pool`: of its files; empty: there are none.
  KvHandovers(KvManager& kv, std::string pool, const KvHandoverOptions& options)
      : kv_(kv), pool_(std::move(pool)), options_(options) {}
  ~KvHandovers();
  KvHandovers(const KvHandovers&) = delete;
  KvHandovers& operator=(const KvHandovers&) = delete;

  // The request has ended and its prompt is computed and registered.
  void begin(Answer answer, const Request& request, int64_t now_us);
  // The answer of a group that waits no longer; nullopt: it does not wait.
  std::optional<Answer> take_back(const Group& group);
  // Asks for writing what could not be written yet, and returns answers that are done: their delta
  // says what is handed over, nothing where no block is.
  std::vector<Answer> poll(int64_t now_us);
  bool empty() const { return waiting_.empty(); }

  int64_t num_handovers() const { return num_handovers_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_cut() const { return num_cut_; }

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
  const std::string pool_;
  const KvHandoverOptions options_;
  std::vector<Waiting> waiting_;  // oldest first
  int64_t num_handovers_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_cut_ = 0;  // handovers of less than what there was
};

}  // namespace quire
