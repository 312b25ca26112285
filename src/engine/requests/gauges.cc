#include "engine/requests/gauges.h"

namespace quire {

void Gauges::publish() {
  metrics_.set_gauges(scheduler_.stats(), scheduler_.encoder_stats(), kv_.stats(),
                      kv_.stats(KvPool::kState));
  metrics_.set_adapters(scheduler_.adapter_uses());
  if (kv_.files() == nullptr) return;
  KvFileStats files = kv_.files()->stats();
  handovers_.fill(files);
  metrics_.set_kv_files(files);
}

}  // namespace quire
