// These functions are shared by the verbs that serve until they are told to stop.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <string>

#include "server/tls/tls_options.h"

namespace quire::cli {

// Blocks SIGINT and SIGTERM in this thread and in all threads that it starts, so that one thread
// can wait for them.
sigset_t block_stop_signals();

// Raises the soft limit of open files to the hard one: a thousand open streams need a thousand
// descriptors, and the usual soft limit is 1024.
void raise_descriptor_limit();

// Adds the flags for TLS certificates, which have vLLM's names.
void add_tls_flags(CLI::App& verb, TlsOptions& tls, const std::string& group);

// Adds --log-format, which takes effect as soon as it is parsed.
void add_log_flag(CLI::App& verb, const std::string& group);

std::string url_of(const std::string& host, uint16_t port, const TlsOptions& tls);

}  // namespace quire::cli
