#include "base/strings.h"

#include <charconv>

namespace lamina {
namespace internal {
namespace {

template <class T>
void append_chars(std::string& out, T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

}  // namespace

void append_piece(std::string& out, std::string_view piece) { out.append(piece); }
void append_piece(std::string& out, char value) { out.push_back(value); }
void append_number(std::string& out, long long value) { append_chars(out, value); }
void append_number(std::string& out, unsigned long long value) { append_chars(out, value); }
void append_number(std::string& out, float value) { append_chars(out, value); }
void append_number(std::string& out, double value) { append_chars(out, value); }

}  // namespace internal

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(parts[i]);
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + 1)) parts.emplace_back(text.substr(0, end));
  parts.emplace_back(text);
  return parts;
}

std::string shape_string(const std::vector<int64_t>& shape) {
  std::vector<std::string> parts;
  for (int64_t size : shape) parts.push_back(cat(size));
  return cat("[", join(parts, ", "), "]");
}

}  // namespace lamina
