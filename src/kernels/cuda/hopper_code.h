// Extends device_code.h by what only sm_90a has, for files named *_sm90a.cu.
#pragma once

#include "kernels/cuda/device_code.h"

#if defined(__CUDACC__)
#include "kernels/cuda/hopper.h"
#else
#include "kernels/cuda/emulation/hopper.h"
#endif
