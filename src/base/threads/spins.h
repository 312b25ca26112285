// How long threads that wait for each other spin before they sleep.
#pragma once

namespace quire {

// Returns for how many turns one of `num_threads` threads that work in step should spin before it
// sleeps: some tens of microseconds, or none if the machine has fewer CPUs than threads, since a
// spinning thread would then keep the awaited one from running.
int spins_before_sleep(int num_threads);

}  // namespace quire
