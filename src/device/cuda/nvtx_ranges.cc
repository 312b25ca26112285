#include "device/cuda/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace quire::cuda {

// The index is passed as a payload, so that no text is formatted per range.
void NvtxRanges::begin(const char* name, size_t index) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  if (index != static_cast<size_t>(-1)) {
    event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    event.payload.ullValue = index;
  }
  (void)nvtxRangePushEx(&event);
}

void NvtxRanges::end() { (void)nvtxRangePop(); }

}  // namespace quire::cuda
