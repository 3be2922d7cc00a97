#pragma once
// HTTP/1.1 over TCP: connections, limits and time-outs. What is answered is the handler's business.

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/http.h"

namespace lamina::server {

struct HttpLimits {
  size_t header_bytes = size_t{16} << 10;
  size_t body_bytes = size_t{16} << 20;
  size_t max_connections = 1024;
  double header_seconds = 10;  // from a request's first byte to the end of its header
  double body_seconds = 60;
  double idle_seconds = 75;    // between requests of a connection
  double write_seconds = 30;   // for the client to take 64 KB
  double refused_seconds = 5;  // for the rest of a refused request, which is thrown away
  int send_bytes = 0;          // that the system holds of answers which a client does not take yet; 0: as many as it likes
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Whether a request is refused by its header alone, before its body is read. On the server's thread.
  virtual std::optional<HttpResponse> check_head(const HttpRequest& head) = 0;
  /// Answers a request. On the request thread, one at a time, so that a long prompt is parsed without stopping anybody's stream.
  virtual Reply handle(const HttpRequest& request) = 0;
  /// Told once for each answer whose header was sent.
  virtual void answered(const HttpRequest& request, int status) = 0;
  /// Told once, when draining begins.
  virtual void draining() = 0;
  /// Whether stop_after() is about to be called: a drain that has nothing left to wait for leaves the end to it.
  virtual bool failed() = 0;
};

/// Two threads: the one in run() owns the sockets, another one prepares requests.
///
/// A client that goes away while its answer is computed is noticed (also before the first byte of the answer) and its PendingReply dropped.
/// A client that only closes its sending side still gets its answer: it is told from the other by an interim response (102, or an empty
/// comment in a stream), which a closed socket answers with a reset.
class HttpServer {
 public:
  /// Binds and listens; clients wait until run(). The handler outlives the server.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler);
  ~HttpServer();

  int port() const;
  /// Serves until drained. With `signals` SIGTERM and SIGINT drain: the first as drain(drain_seconds), a second one at once.
  void run(bool signals, double drain_seconds);
  /// Lets running requests end and returns from run() then, or when `seconds` are over. Idle connections stay usable meanwhile, so that
  /// the handler can say that it is ending. Thread-safe.
  void drain(double seconds);
  /// Serves for `seconds` more and returns from run(), whatever runs then; ends a drain that would last longer. Thread-safe.
  void stop_after(double seconds);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina::server
