#pragma once
// Building messages: cat("tensor ", name, " has ", n, " rows").

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lamina {

namespace internal {
void append_piece(std::string& out, std::string_view piece);
void append_piece(std::string& out, bool value) = delete;
void append_piece(std::string& out, char value);
void append_number(std::string& out, long long value);
void append_number(std::string& out, unsigned long long value);
void append_number(std::string& out, double value);  // shortest form that reads back equal
template <class T>
  requires std::integral<T> || std::floating_point<T>
void append_piece(std::string& out, T value) {
  if constexpr (std::floating_point<T>) append_number(out, static_cast<double>(value));
  else if constexpr (std::signed_integral<T>) append_number(out, static_cast<long long>(value));
  else append_number(out, static_cast<unsigned long long>(value));
}
}  // namespace internal

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

std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
/// "[2048, 8192]"
std::string shape_string(const std::vector<long>& shape);

}  // namespace lamina
