// How long threads that wait for each other look before they sleep.
#pragma once

namespace quire {

// Returns for how many turns one of `num_threads` threads that work in step should look for the
// others before it sleeps: tens of microseconds' worth, or none where the machine has fewer CPUs
// than threads, as a thread that looks would keep the awaited one from running.
int spins_before_sleep(int num_threads);

}  // namespace quire
