#pragma once
// A blocking HTTP client that can also misbehave.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lamina::server_test {

struct Response {
  int status = 0;                              // 0: the connection ended or fell silent before an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined

  /// The body as JSON; a failure of the test when it is none.
  Json json() const;
  /// The data of each server-sent event.
  std::vector<std::string> events() const;
  /// events() but the last, which must be [DONE], as JSON.
  std::vector<Json> chunks() const;
  /// error.message, error.param and error.code as "message|param|code", each "null" when it is null.
  std::string error() const;
};

/// Whether somebody takes connections at the port.
bool listens(int port);

/// One connection to a port of this machine. Reads and writes give up after a minute.
class Connection {
 public:
  /// `receive_bytes`: what the system may hold of what nobody reads; 0: as it likes.
  explicit Connection(int port, int receive_bytes = 0);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Whether all bytes went out.
  bool send(std::string_view bytes);
  /// The next answer; interim ones (1xx) are skipped and counted. `to_head`: the answer to HEAD, which has no body.
  Response read_response(bool to_head = false);
  /// Reads until `text` has arrived; whether it did.
  bool read_until(std::string_view text);
  /// Whether the peer closes without sending more.
  bool closed();
  void close_sending();
  void close();
  /// Closes so that the peer gets a reset.
  void reset();
  int interim() const { return interim_; }

 private:
  bool fill();
  std::optional<std::string> line();
  bool take(size_t count, std::string& out);

  int socket_ = -1;
  std::string buffer_;
  int interim_ = 0;
};

/// "POST path" with a JSON body and the usual headers; `extra` are header lines with their line ends.
std::string post_text(std::string_view path, std::string_view body, std::string_view extra = "");
std::string get_text(std::string_view path, std::string_view extra = "");

Response post(int port, std::string_view path, std::string_view body);
Response get(int port, std::string_view path);

}  // namespace lamina::server_test
