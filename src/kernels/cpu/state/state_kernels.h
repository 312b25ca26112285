// The table of the state kernels that are compiled for each instruction set. kernel_tables.h says
// why nothing here can use the standard library. A call is one task: some columns of a state over
// all segments.
#pragma once

#include <stdint.h>

namespace quire::cpu {

struct SegmentArgs {
  const int32_t* start_loc;
  const int32_t* state_in;
  const int32_t* state_out;
  int32_t num_segments;
  float* state;  // the task's part of the state in block 0
  int64_t block_stride;
};

// The arguments for the convolution of up to 16 channels.
struct ConvColumns {
  SegmentArgs segments;  // [K - 1] rows, num_channels apart
  const float* x;        // from the first channel on, as all pointers below
  const float* in_gate;  // or null
  const float* out_gate;
  int64_t x_stride;
  const float* weight;  // [count, K]
  const float* bias;    // or null
  bool silu;
  float* out;
  int64_t out_stride;
  int32_t kernel_size;
  int64_t num_channels;
  int64_t count;
};

// The arguments for the selective scan of up to 16 channels.
struct ScanColumns {
  SegmentArgs segments;  // [N] rows, num_channels apart
  const float* x;
  int64_t x_stride;
  const float* delta;  // rows num_channels apart
  const float* b;
  const float* c;
  int64_t bc_stride;
  const float* a;  // [count, N]
  const float* d;
  float* out;  // rows num_channels apart
  int64_t num_channels;
  int64_t num_states;
  int64_t count;
};

// The arguments for up to 32 columns of a head: one or two vectors of 16, with a state [rows][16]
// or [rows][32].
struct SsdColumns {
  SegmentArgs segments;
  const float* x;
  const float* b;
  const float* c;
  int64_t x_stride;
  const float* delta;  // the head's; rows num_heads apart, as those of decay
  const float* decay;
  int64_t num_heads;
  float d;
  float* out;
  int64_t out_stride;
  int64_t num_states;
  int64_t count;
};

struct DeltaColumns {
  SegmentArgs segments;
  const float* q;
  const float* k;
  const float* v;
  int64_t qkv_stride;
  const float* decay;
  int64_t decay_stride;
  bool has_channel_decay;
  const float* beta;
  int64_t beta_stride;
  float* out;
  int64_t out_stride;
  int64_t key_dim;
  int64_t count;
};

// The arguments for the gates of n elements of one row.
struct GateRow {
  const float* x;
  const float* bias;  // or null
  const float* a;     // or null
  bool one_a;         // a[0] is for all elements
  float min_delta;
  float max_delta;
  float* delta;  // or null
  float* decay;  // or null
  int64_t n;
};

enum GateKind : int { kGateNone, kGateSilu, kGateSigmoid };

struct NormGroup {
  float* x;
  GateKind act;
  const float* gate;
  bool gate_first;
  bool normalizes;
  const float* weight;  // or null
  float scale;
  float eps;
  int64_t n;
};

struct StateKernels {
  void (*conv)(const ConvColumns& args);
  void (*selective_scan)(const ScanColumns& args);
  void (*ssd)(const SsdColumns& args);
  void (*delta_rule)(const DeltaColumns& args);
  void (*step_gates)(const GateRow& args);
  void (*sigmoid)(const float* x, float* out, int64_t n);
  void (*gated_norm)(const NormGroup& args);
};

extern const StateKernels kStatePortable;
extern const StateKernels kStateAvx2;
extern const StateKernels kStateAvx512;

}  // namespace quire::cpu
