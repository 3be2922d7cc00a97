#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "base/strings.h"

namespace lamina {
namespace {

std::atomic<LogLevel> threshold{LogLevel::kInfo};

// One write a line, so that lines of several threads do not mix; a line break inside the message would forge a second line.
void write_line(LogLevel level, std::string_view prefix, std::string_view message) {
  if (level < threshold.load(std::memory_order_relaxed)) return;
  std::string line(prefix);
  for (char c : message) {
    if (c == '\n')
      line += "\\n";
    else if (c == '\r')
      line += "\\r";
    else
      line += c;
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void set_log_level(LogLevel level) { threshold.store(level, std::memory_order_relaxed); }

Result<LogLevel> parse_log_level(std::string_view name) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", "off"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return error("log level '", name, "': use debug, info, warning, error or off");
}

void log_debug(std::string_view message) { write_line(LogLevel::kDebug, "debug: ", message); }
void log_info(std::string_view message) { write_line(LogLevel::kInfo, "info: ", message); }
void log_warning(std::string_view message) { write_line(LogLevel::kWarning, "warning: ", message); }
void log_error(std::string_view message) { write_line(LogLevel::kError, "error: ", message); }

}  // namespace lamina
