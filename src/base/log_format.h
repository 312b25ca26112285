// The format of log lines, and lines with fields.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"

namespace quire {

enum class LogFormat { kText, kJson };

// Sets the format. kText, the default: "2026-11-26 20:15:01.123 info TEXT". kJson: one object per
// line, with time (UTC), level, message, and a member for each field.
void set_log_format(LogFormat format);

// The fields of a line. Names are plain words; in kText they follow the text as NAME=VALUE.
using LogFields = std::span<const std::pair<std::string_view, std::string>>;
void log_fields(LogLevel level, std::string_view text, LogFields fields);

}  // namespace quire
