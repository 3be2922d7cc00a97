#pragma once
// One HTTP exchange as values: what handlers see and give back. No sockets here.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lamina::server {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, without the query
  std::string content_type, authorization;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// An answer that takes time. All calls come from the server's thread, only destruction may come from another; it gives up what is still
/// being computed.
class PendingReply {
 public:
  virtual ~PendingReply() = default;

  struct Piece {
    std::string events;                 // of a stream: server-sent events to be sent now
    std::optional<HttpResponse> whole;  // of the others: the answer
    bool done = false;
    bool full = false;  // there may be more by now: poll() is to be called again without being woken
  };

  /// Whether the answer goes out piece by piece, as text/event-stream under status 200.
  virtual bool streams() const = 0;
  /// `wake` is called from any thread whenever poll() may have more to give.
  virtual void set_wake(std::function<void()> wake) = 0;
  /// What is ready by now; not to be called again once it was done.
  virtual Piece poll() = 0;
};

using Reply = std::variant<HttpResponse, std::unique_ptr<PendingReply>>;

/// "Not Found"; "Unknown" for a status that this server never sends.
std::string_view status_phrase(int status);

/// How an answer is framed: what the request's version and Connection header allow.
struct Framing {
  bool http_1_0 = false;
  bool keep_alive = true;
  bool head_only = false;  // HEAD: the header that GET would have, without the body
};
/// Status line, header and body.
std::string encode_response(const HttpResponse& response, const Framing& framing);
/// Status line and header of a text/event-stream: chunked, or for HTTP/1.0 until the connection closes.
std::string encode_stream_head(const Framing& framing);
/// One chunk of a stream (the bytes as they are for HTTP/1.0); "" for no bytes, because an empty chunk would end the stream.
std::string encode_stream_piece(std::string_view bytes, const Framing& framing);
std::string encode_stream_end(const Framing& framing);

/// The path of a request target, percent-decoded: "/v1/models/a%2Fb?x=1" -> "/v1/models/a/b"; absolute form is accepted. None for a target
/// that is no path or has a broken escape.
std::optional<std::string> path_of_target(std::string_view target);

/// "data: {...}" as one server-sent event; `data` holds no line break.
std::string sse_event(std::string_view data);

}  // namespace lamina::server
