#include "kv/files/copy_epochs.h"

namespace quire {

void CopyEpochs::hand_on(Waiting waiting, bool has_untaken_copies) {
  waiting.epoch = epoch_ + (has_untaken_copies ? 1 : 0);
  if (waiting.epoch <= done_epoch_) {
    dispatch(waiting);
  } else {
    waiting_.push_back(std::move(waiting));
  }
}

void CopyEpochs::dispatch(Waiting& waiting) {
  if (waiting.store) files_.store(std::move(*waiting.store));
  if (waiting.load) files_.load(std::move(*waiting.load));
}

void CopyEpochs::on_step_done(uint64_t step_id) {
  while (!steps_.empty() && steps_.front().first <= step_id) {
    done_epoch_ = steps_.front().second;
    steps_.pop_front();
  }
  while (!waiting_.empty() && waiting_.front().epoch <= done_epoch_) {
    dispatch(waiting_.front());
    waiting_.pop_front();
  }
}

std::vector<uint64_t> CopyEpochs::forget_stores() {
  std::vector<uint64_t> ids;
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.store) ids.push_back(waiting.store->id);
    return waiting.store.has_value();
  });
  return ids;
}

}  // namespace quire
