// RequestBatch runs the requests of one call. There may be more of them than the engine's queue has
// room for; they then wait in the call.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <semaphore>
#include <vector>

#include "base/result.h"
#include "engine/async_engine.h"

namespace quire {

// For one thread. If it is destroyed early, requests that still run are aborted.
class RequestBatch {
 public:
  // Takes a delta of the request that was the index-th to be added.
  using Take = std::function<void(size_t index, OutputDelta delta)>;

  // Borrows the engine.
  RequestBatch(AsyncEngine& engine, Take take) : engine_(engine), take_(std::move(take)) {}

  // Submits a request as soon as there is room for it in the engine's queue, and reads the output
  // of the others while it waits. The error is that of submit(), or of any request before.
  Status add(const GenerationRequest& request);
  // Reads all output to its end. The error is that of any request.
  Status finish();

 private:
  Status take(size_t index, OutputDelta delta);
  Status take_all_there_is();

  AsyncEngine& engine_;
  const Take take_;
  std::vector<std::unique_ptr<OutputStream>> streams_;  // null: read to its end
  // Counts calls that say that there is output. The engine's thread shares it, since it may call
  // once more after a stream is destroyed.
  const std::shared_ptr<std::counting_semaphore<>> news_ =
      std::make_shared<std::counting_semaphore<>>(0);
};

}  // namespace quire
