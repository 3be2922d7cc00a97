// The exchanges of exchanges/*.txt against a server with the demo model. After each refusal an ordinary request must be answered.
//
//   == name                   a case
//   POST /v1/completions      method and path
//   Header: value             headers besides Host and Content-Length; a body without a Content-Type gets application/json
//   (empty line)
//   {"prompt": ...}           the body, up to "=>"; \xNN is one byte
//   => 400                    the status
//   + text                    the answer's head or body has this
//   - text                    and does not have this

#include <gtest/gtest.h>

#include <charconv>

#include "base/file.h"
#include "base/strings.h"
#include "tests/server/live_server.h"

namespace lamina::server_test {
namespace {

struct Exchange {
  std::string name, request_line, headers, body;
  int status = 0;
  std::vector<std::string> wanted, unwanted;

  std::string request() const {
    std::string out = cat(request_line, " HTTP/1.1\r\nHost: test\r\n", headers);
    const bool typed = headers.find("Content-Type") != std::string::npos;
    if (!body.empty()) out += cat(typed ? "" : "Content-Type: application/json\r\n", "Content-Length: ", body.size(), "\r\n");
    return cat(out, "\r\n", body);
  }
};

std::string with_bytes(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text.compare(i, 2, "\\x") == 0 && std::from_chars(text.data() + i + 2, text.data() + i + 4, value, 16).ptr == text.data() + i + 4) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<Exchange> read_exchanges(const std::string& path) {
  enum class Part { kStart, kHeaders, kBody, kAnswer };
  std::vector<Exchange> out;
  Part part = Part::kStart;
  for (const std::string& line : split(*read_file(path), '\n')) {
    if (line.starts_with("== ")) {
      out.push_back({.name = line.substr(3)});
      part = Part::kStart;
    } else if (line.starts_with("=> ")) {
      out.back().status = std::stoi(line.substr(3));
      part = Part::kAnswer;
    } else if (part == Part::kStart && !out.empty() && out.back().request_line.empty()) {
      out.back().request_line = line;
      part = Part::kHeaders;
    } else if (part == Part::kHeaders && !line.empty()) {
      out.back().headers += line + "\r\n";
    } else if (part == Part::kHeaders) {
      part = Part::kBody;
    } else if (part == Part::kBody) {
      out.back().body += with_bytes(line);
    } else if (part == Part::kAnswer && line.starts_with("+ ")) {
      out.back().wanted.push_back(line.substr(2));
    } else if (part == Part::kAnswer && line.starts_with("- ")) {
      out.back().unwanted.push_back(line.substr(2));
    }
  }
  return out;
}

void check(LiveServer& live, const Exchange& exchange) {
  SCOPED_TRACE(exchange.name);
  Connection connection(live.port());
  connection.send(exchange.request());
  const Response response = connection.read_response(exchange.request_line.starts_with("HEAD "));
  EXPECT_EQ(response.status, exchange.status) << response.body;
  std::string answer;
  for (const auto& [name, value] : response.headers) answer += cat(name, ": ", value, "\n");
  answer += response.body;
  for (const std::string& text : exchange.wanted) EXPECT_NE(answer.find(text), std::string::npos) << text << "\nis not in\n" << answer;
  for (const std::string& text : exchange.unwanted) EXPECT_EQ(answer.find(text), std::string::npos) << text << "\nis in\n" << answer;
  if (exchange.status < 400) return;
  EXPECT_NE(response.error(), "");
  live.expect_good_request();
}

/// All cases of exchanges/`file`.
void run(const std::string& file) {
  LiveServer live(demo_options());
  const std::vector<Exchange> exchanges = read_exchanges(cat(LAMINA_SOURCE_DIR "/tests/server/exchanges/", file));
  ASSERT_GT(exchanges.size(), 3u);
  for (const Exchange& exchange : exchanges) check(live, exchange);
  live.expect_at_rest();
}

TEST(Exchanges, RoutesMethodsAndTypes) { run("routes.txt"); }
TEST(Exchanges, BadBodies) { run("bodies.txt"); }
TEST(Exchanges, FieldsOfCompletions) { run("completions.txt"); }
TEST(Exchanges, FieldsOfChat) { run("chat.txt"); }
TEST(Exchanges, FieldsOfTheOthers) { run("others.txt"); }

}  // namespace
}  // namespace lamina::server_test
