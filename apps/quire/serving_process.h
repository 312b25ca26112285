// What verbs that serve until they are told to stop ask of the system.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

namespace quire::cli {

// Blocks SIGINT and SIGTERM in this thread and all that it starts, so that one place waits for
// them.
sigset_t block_stop_signals();

// A thousand open streams need a thousand descriptors, and the usual soft limit is 1024.
void raise_descriptor_limit();

std::string url_of(const std::string& host, uint16_t port);

}  // namespace quire::cli
