// Packs weights in host memory as a GPU reads them (dense rows of bf16), so that a whole model can
// be made with the loader of the CPU and copied in one piece.
#pragma once

#include "device/stream.h"

namespace quire {

// Only pack_weight_rows() may be called on it.
class RowStagingStream final : public Stream {
 public:
  DeviceKind device() const override { return DeviceKind::kCpu; }
  const OpTable* ops() const override;
};

}  // namespace quire
