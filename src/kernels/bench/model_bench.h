// Measurements of the ops that only some families have.
#pragma once

#include "kernels/bench/bench_rows.h"

namespace quire::bench {

void bench_experts(BenchRows& rows);
void bench_states(BenchRows& rows);

}  // namespace quire::bench
