#pragma once
// Building messages: cat("tensor ", name, " has ", n, " rows").

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lamina {

namespace internal {
void append_piece(std::string& out, std::string_view piece);
template <std::same_as<bool> T>  // a template, because a string literal converts to bool before it converts to string_view
void append_piece(std::string& out, T value) = delete;
void append_piece(std::string& out, char value);
void append_number(std::string& out, long long value);
void append_number(std::string& out, unsigned long long value);
void append_number(std::string& out, float value);  // shortest form that reads back equal
void append_number(std::string& out, double value);
template <class T>
  requires((std::integral<T> && !std::same_as<T, bool>) || std::same_as<T, float> || std::same_as<T, double>)
void append_piece(std::string& out, T value) {
  if constexpr (std::floating_point<T>)
    append_number(out, value);
  else if constexpr (std::signed_integral<T>)
    append_number(out, static_cast<long long>(value));
  else
    append_number(out, static_cast<unsigned long long>(value));
}
}  // namespace internal

/// Strings and characters as they are, numbers in their shortest form that reads back equal. A bool does not compile: say what it means.
template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (internal::append_piece(out, pieces), ...);
  return out;
}

/// Error whose message is the concatenation of `pieces`.
template <class... Pieces>
Error error(const Pieces&... pieces) {
  return Error{cat(pieces...)};
}

/// "a, b, c"; empty for no parts.
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// The parts between separators, empty ones included: n separators give n + 1 parts.
std::vector<std::string> split(std::string_view text, char separator);
/// "[2048, 8192]"
std::string shape_string(const std::vector<int64_t>& shape);

}  // namespace lamina
