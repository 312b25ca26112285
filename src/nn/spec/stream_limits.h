// How many residual streams the kernels take, for whoever reads configurations.
#pragma once

#include "kernels/api/streams/residual_streams.h"
