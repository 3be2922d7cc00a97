#include "tests/server/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/strings.h"

namespace lamina::server_test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

size_t parse_size(std::string_view text, int base) {
  size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

std::string word(const Json* value) {
  if (value == nullptr) return "absent";
  return value->is_string() ? value->as_string() : value->dump();
}

}  // namespace

Json Response::json() const {
  Result<Json> parsed = parse_json(body, "the answer");
  EXPECT_TRUE(parsed.ok()) << status << " " << body;
  return parsed.ok() ? *parsed : Json::object();
}

std::vector<std::string> Response::events() const {
  std::vector<std::string> out;
  for (const std::string& text : split(body, '\n')) {
    if (text.starts_with("data: ")) out.push_back(text.substr(6));
  }
  return out;
}

std::vector<Json> Response::chunks() const {
  const std::vector<std::string> all = events();
  std::vector<Json> out;
  if (all.empty() || all.back() != "[DONE]") {
    ADD_FAILURE() << "the stream does not end with [DONE]: " << body;
    return out;
  }
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    Result<Json> parsed = parse_json(all[i], "a chunk");
    EXPECT_TRUE(parsed.ok()) << all[i];
    if (parsed.ok()) out.push_back(std::move(*parsed));
  }
  return out;
}

std::string Response::error() const {
  const Json parsed = json();
  const Json* inner = parsed.find("error");
  if (inner == nullptr) return cat("no error but ", status, " ", body);
  return cat(word(inner->find("message")), "|", word(inner->find("param")), "|", word(inner->find("code")));
}

namespace {

bool connected(int socket, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

bool listens(int port) {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool accepted = connected(probe, port);
  ::close(probe);
  return accepted;
}

Connection::Connection(int port, int receive_bytes) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval patience{.tv_sec = 60, .tv_usec = 0};  // of a machine that does much else
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (receive_bytes > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  EXPECT_TRUE(connected(socket_, port));
}

Connection::~Connection() { close(); }

bool Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool Connection::fill() {
  char piece[65536];
  const ssize_t count = recv(socket_, piece, sizeof piece, 0);
  if (count <= 0) return false;
  buffer_.append(piece, static_cast<size_t>(count));
  return true;
}

std::optional<std::string> Connection::line() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  std::string out = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return out;
}

bool Connection::take(size_t count, std::string& out) {
  while (buffer_.size() < count) {
    if (!fill()) return false;
  }
  out.append(buffer_, 0, count);
  buffer_.erase(0, count);
  return true;
}

Response Connection::read_response(bool to_head) {
  Response out;
  const std::optional<std::string> first = line();
  if (!first || !first->starts_with("HTTP/1.")) return out;
  const int status = static_cast<int>(parse_size(first->substr(9, 3), 10));
  std::optional<std::string> header = line();
  for (; header && !header->empty(); header = line()) {
    const size_t colon = header->find(": ");
    if (colon != std::string::npos) out.headers[lower(header->substr(0, colon))] = header->substr(colon + 2);
  }
  if (!header) return out;
  if (status / 100 == 1) {
    ++interim_;
    return read_response(to_head);
  }
  bool whole = true;
  if (out.headers.contains("transfer-encoding")) {
    size_t size = 1;
    while (whole && size > 0) {
      const std::optional<std::string> head = line();
      size = head ? parse_size(*head, 16) : 0;
      whole = head && take(size, out.body) && line().has_value();
    }
  } else if (out.headers.contains("content-length") && !to_head) {
    whole = take(parse_size(out.headers["content-length"], 10), out.body);
  } else if (!to_head && status != 204) {
    while (fill()) {
    }
    out.body.swap(buffer_);
  }
  out.status = whole ? status : 0;
  return out;
}

bool Connection::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos) {
    if (!fill()) return false;
  }
  return true;
}

bool Connection::closed() {
  char byte = 0;
  return buffer_.empty() && recv(socket_, &byte, 1, 0) == 0;
}

void Connection::close_sending() { shutdown(socket_, SHUT_WR); }

void Connection::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Connection::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

std::string post_text(std::string_view path, std::string_view body, std::string_view extra) {
  return cat("POST ", path, " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: ", body.size(), "\r\n", extra,
             "\r\n", body);
}

std::string get_text(std::string_view path, std::string_view extra) {
  return cat("GET ", path, " HTTP/1.1\r\nHost: test\r\n", extra, "\r\n");
}

Response post(int port, std::string_view path, std::string_view body) {
  Connection connection(port);
  connection.send(post_text(path, body));
  return connection.read_response();
}

Response get(int port, std::string_view path) {
  Connection connection(port);
  connection.send(get_text(path));
  return connection.read_response();
}

}  // namespace lamina::server_test
