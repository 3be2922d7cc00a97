#pragma once
// Checks for our own bugs. What a user, a file or a peer can cause is a `Result` (base/result.h), never a check.

namespace lamina {

/// Prints "file:line: check failed: expression: message" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const char* message);

}  // namespace lamina

#define LAMINA_CHECK(condition, message)                               \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::lamina::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)
