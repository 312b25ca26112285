// Deals the experts of a model out to ranks by their loads, while it runs (EPLB).
//
//   balancer.begin_step();  // on every rank, before every forward pass
//
// Every rank counts the tokens of all experts, since each of them routes all tokens, and comes to the
// same placement (nn/experts/expert_placement.h). Then layers change one after the other: each rank
// reads the experts that it gets on a thread of its own, steps go on meanwhile, and with the step in
// which all ranks say that they have them the layer takes its new placement. A rank that cannot read
// an expert says so, and all of them leave the experts where they are until the next interval. No
// answer depends on any of this (law L4).
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

// Borrows all but the reader. One thread at a time may use it.
class ExpertBalancer {
 public:
  struct Parts {
    const DecoderSpec& spec;  // of this rank
    DecoderWeights& weights;
    Arena& arena;  // that the weights were loaded into
    ExpertsBlock& experts;
    RankExchange& ranks;
    std::unique_ptr<ExpertReader> reader;
  };

  ExpertBalancer(const ExpertBalanceOptions& options, Parts parts);
  // Waits for what is being read.
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
  // Begins to read what this rank gets with the first change.
  void start_reading();
  void read(const Change& change);
  void advance();
  void apply(Change change);

  ExpertBalanceOptions options_;
  Parts parts_;
  int64_t num_steps_ = 0;
  std::deque<Change> changes_;
  // It makes the first change. The thread writes what it makes until progress_ says that it is
  // done.
  std::thread thread_;
  std::atomic<uint8_t> progress_ = kReady;
  std::vector<ReadExpert> read_;
  // By layer and slot, of experts that have been read.
  std::map<std::pair<size_t, size_t>, Arena> memory_;
};

// Returns the most bytes that experts take while they are read and those that they replace are
// still there: as much as all of a rank's experts in one layer.
int64_t moving_expert_bytes(const std::vector<WeightSlot>& slots, const WeightPacking& packing);

}  // namespace quire
