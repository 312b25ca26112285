// What verbs that serve until they are told to stop ask of the system.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <string>

#include "server/tls/tls_options.h"

namespace quire::cli {

// Blocks SIGINT and SIGTERM in this thread and all that it starts, so that one place waits for
// them.
sigset_t block_stop_signals();

// A thousand open streams need a thousand descriptors, and the usual soft limit is 1024.
void raise_descriptor_limit();

// Adds the flags of certificates, with vLLM's names.
void add_tls_flags(CLI::App& verb, TlsOptions& tls, const std::string& group);

// Adds --log-format, which is in force once it is read.
void add_log_flag(CLI::App& verb, const std::string& group);

std::string url_of(const std::string& host, uint16_t port, const TlsOptions& tls);

}  // namespace quire::cli
