// Verbs that print figures print them as JSON when they are told to (--json).
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>

namespace quire::cli {

// Adds --json, with which a verb prints one line of JSON instead of its text.
void add_json_flag(CLI::App& verb, bool& as_json);

// Prints `figures` as one line on standard output. Numbers that are infinite or not a number become
// null, because JSON has no word for them, and bytes that are no UTF-8 become U+FFFD.
void print_json(boost::json::value figures);

}  // namespace quire::cli
