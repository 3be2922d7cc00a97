#pragma once
// Log lines go to stderr, one line each; stdout belongs to results.

#include <string_view>

namespace lamina {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void set_log_level(LogLevel level);
void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

}  // namespace lamina
