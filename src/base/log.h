#pragma once
// Log lines go to stderr, one line each; stdout belongs to results.

#include <string_view>

#include "base/result.h"

namespace lamina {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Lines below `level` are dropped from now on, on every thread (info until it is called).
void set_log_level(LogLevel level);
/// "debug", "info", "warning", "error" or "off" (LAMINA_LOG, read by the application).
Result<LogLevel> parse_log_level(std::string_view name);

// Each writes its level and the message; line breaks in the message are escaped.
void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

}  // namespace lamina
