// The number of residual streams that the kernels support, for code that reads configurations.
#pragma once

#include "kernels/api/streams/residual_streams.h"
