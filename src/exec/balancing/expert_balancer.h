// ExpertBalancer moves the experts of a running model between ranks by their loads (EPLB).
//
//   balancer.begin_step();  // on every rank, before every forward pass
//
// Every rank routes all tokens, so every rank counts the tokens of all experts and computes the
// same placement (nn/experts/expert_placement.h). Then layers change one after the other. Each rank
// reads the experts that it gets on a background thread while steps go on; when all ranks report
// that they have read theirs, the layer takes its new placement before the next step. A rank that
// cannot read an expert reports that, and all ranks keep their experts where they are until the
// next interval. No answer depends on the placement (law L4).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "exec/balancing/expert_balance_options.h"
#include "exec/balancing/expert_reader.h"
#include "nn/decoder/experts_block.h"
#include "nn/rank_exchange.h"
#include "nn/weights/decoder_weights.h"

namespace quire {

// Borrows everything in Parts but the reader, which it owns. One thread at a time may use it.
class ExpertBalancer {
 public:
  struct Parts {
    const DecoderSpec& spec;  // of this rank
    DecoderWeights& weights;
    Arena& arena;  // the one that the weights were loaded into
    ExpertsBlock& experts;
    RankExchange& ranks;
    std::unique_ptr<ExpertReader> reader;
  };

  ExpertBalancer(const ExpertBalanceOptions& options, Parts parts);
  // Waits for the background thread that reads experts.
  ~ExpertBalancer();
  ExpertBalancer(const ExpertBalancer&) = delete;
  ExpertBalancer& operator=(const ExpertBalancer&) = delete;

  void begin_step();

 private:
  struct Change {
    size_t layer = 0;
    std::vector<int32_t> expert_of;  // by slot
  };
  enum Progress : uint8_t { kFailed, kReading, kReady };  // the least of all ranks' counts

  void place(const std::vector<std::vector<int64_t>>& tokens);
  // Starts to read the experts that the first change gives this rank.
  void start_reading();
  void read(const Change& change);
  void advance();
  void apply(Change change);

  ExpertBalanceOptions options_;
  Parts parts_;
  int64_t num_steps_ = 0;
  std::deque<Change> changes_;
  // The thread reads the experts of the first change. It alone writes read_, until progress_ says
  // that it is done.
  std::thread thread_;
  std::atomic<uint8_t> progress_ = kReady;
  std::vector<ReadExpert> read_;
  // The memory of experts that were read, by layer and slot.
  std::map<std::pair<size_t, size_t>, Arena> memory_;
};

// Returns the most bytes that newly read experts take while those that they replace are still in
// memory: as many as all of a rank's experts in one layer.
int64_t moving_expert_bytes(const std::vector<WeightSlot>& slots, const WeightPacking& packing);

}  // namespace quire
