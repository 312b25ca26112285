// How lines of the log are written, and lines with fields.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace quire {

enum class LogFormat { kText, kJson };

// kText, which is in force from the beginning: "2026-11-26 20:15:01.123 info TEXT". kJson: an object a
// line, with time (UTC), level, message, and a member for each field.
void set_log_format(LogFormat format);

// A line may have fields, whose names are plain words; in text they stand behind it as NAME=VALUE.
using LogFields = std::span<const std::pair<std::string_view, std::string>>;
void log_fields(LogLevel level, std::string_view text, LogFields fields);

}  // namespace quire
