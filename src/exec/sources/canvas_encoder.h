// CanvasEncoder computes on the host the rows that a decoder's cross-attention reads from a picture
// on a canvas of tiles (Llama 3.2 Vision).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/sources/canvas_front.h"
#include "exec/sources/encoder_stack.h"
#include "exec/sources/source_encoder.h"
#include "models/vision/mmproj.h"
#include "models/vision/vision_spec.h"

namespace quire {

class CanvasEncoder final : public SourceEncoder {
 public:
  // Finds and checks the tower's tensors without reading any. Borrows stream and packing. The files
  // of `tensors` must outlive load().
  static Result<std::unique_ptr<CanvasEncoder>> open(const VisionSpec& spec,
                                                     const WeightOptions& options,
                                                     TowerTensors tensors, WeightPacking& packing,
                                                     HostStream& stream);

  const DecoderSpec& layers() const override { return all_layers_; }
  int64_t weight_bytes() const override;
  int64_t workspace_bytes() const override;
  Status load(const LoadOptions& options) override;
  Result<SourceRows> encode(const MediaItem& item) override;

 private:
  CanvasEncoder(const VisionSpec& spec, const WeightOptions& options, HostStream& stream);
  int64_t buffer_bytes() const;
  Result<Canvas> canvas_of(const MediaItem& item) const;
  // Projects the outputs of both encoders into source_ [source_rows, hidden size of the language
  // model].
  void project(const float* global);

  const VisionSpec spec_;
  const DecoderSpec all_layers_;  // of both encoders, for code that counts layers
  TowerTensors tensors_;
  CanvasFront front_;
  EncoderStack local_, global_;
  float* rows_ = nullptr;        // [num_rows, E]
  std::vector<float*> outputs_;  // of each of CanvasSpec::layers, [num_rows, E]
  float* joined_ = nullptr;      // [kMaxPooledRows, inputs of the projector]
  float* source_ = nullptr;
};

}  // namespace quire
