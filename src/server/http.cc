#include "server/http.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"

namespace lamina::server {
namespace {

struct Phrase {
  int status;
  std::string_view text;
};

constexpr Phrase kPhrases[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

std::string status_line(int status, const Framing& framing) {
  return cat("HTTP/1.", framing.http_1_0 ? "0 " : "1 ", status, " ", status_phrase(status), "\r\n",
             "Connection: ", framing.keep_alive ? "keep-alive" : "close", "\r\n");
}

/// The value of two hexadecimal digits.
std::optional<char> hex_byte(std::string_view digits) {
  unsigned value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 2 || fault != std::errc() || end != digits.data() + 2) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

std::string_view status_phrase(int status) {
  const Phrase* found = std::find_if(std::begin(kPhrases), std::end(kPhrases), [&](const Phrase& p) { return p.status == status; });
  return found == std::end(kPhrases) ? "Unknown" : found->text;
}

std::string encode_response(const HttpResponse& response, const Framing& framing) {
  std::string out = status_line(response.status, framing);
  for (const auto& [name, value] : response.headers) out += cat(name, ": ", value, "\r\n");
  if (response.status != 204) {  // which has neither body nor length
    out += cat("Content-Type: ", response.content_type, "\r\nContent-Length: ", response.body.size(), "\r\n");
  }
  out += "\r\n";
  if (!framing.head_only && response.status != 204) out += response.body;
  return out;
}

std::string encode_stream_head(const Framing& framing) {
  return cat(status_line(200, framing), "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n",
             framing.http_1_0 ? "" : "Transfer-Encoding: chunked\r\n", "\r\n");
}

std::string encode_stream_piece(std::string_view bytes, const Framing& framing) {
  if (bytes.empty() || framing.http_1_0) return std::string(bytes);
  char size[16];
  const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
  return cat(std::string_view(size, end - size), "\r\n", bytes, "\r\n");
}

std::string encode_stream_end(const Framing& framing) { return framing.http_1_0 ? "" : "0\r\n\r\n"; }

std::optional<std::string> path_of_target(std::string_view target) {
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t slash = target.find('/', target.find("//") + 2);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return std::nullopt;
  target = target.substr(0, target.find_first_of("?#"));
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    const std::optional<char> byte = hex_byte(target.substr(i + 1, 2));
    if (!byte) return std::nullopt;
    path += *byte;
    i += 2;
  }
  return path;
}

std::string sse_event(std::string_view data) { return cat("data: ", data, "\n\n"); }

}  // namespace lamina::server
