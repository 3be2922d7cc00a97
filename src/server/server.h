#pragma once
// The public face of the folder: one engine behind HTTP.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "server/context.h"
#include "server/http_server.h"
#include "server/options.h"

namespace lamina::server {

/// Listens from the start, and answers 503 until it is given an engine, so that whoever asks /health learns that it is starting.
class Server final : private HttpHandler {
 public:
  /// Binds to the port; an error names it.
  static Result<std::unique_ptr<Server>> listen(ServerOptions options);
  ~Server() override;

  int port() const { return http_->port(); }
  /// From now on requests are answered. The engine outlives the server. Thread-safe, once. After a fault of the engine everything is
  /// answered 503, and run() returns half a second later.
  void serve(Engine& engine);
  /// Serves on this thread until drained; with `signals` SIGTERM and SIGINT drain.
  void run(bool signals);
  /// Thread-safe; run() returns when running requests have ended or --drain-timeout is over.
  void drain() { http_->drain(options_.drain_timeout); }
  /// Whether serve() was called.
  bool ready() const { return context_.load() != nullptr; }

 private:
  explicit Server(ServerOptions options) : options_(std::move(options)) {}
  std::optional<HttpResponse> check_head(const HttpRequest& head) override;
  Reply handle(const HttpRequest& request) override;
  void answered(const HttpRequest& request, int status) override;
  void draining() override { draining_ = true; }
  bool failed() override { return ready() && !context_.load()->engine.fault().empty(); }
  HttpResponse health();
  /// Why nothing is served now; empty when it is.
  std::string unready();
  bool stalled();

  ServerOptions options_;
  std::atomic<bool> draining_{false};
  std::atomic<ServerContext*> context_{nullptr};
  std::unique_ptr<ServerContext> owned_context_;
  int64_t last_steps_ = -1;           // of the watchdog, on the server's thread
  double last_progress_ = 0;          // seconds on the steady clock
  std::unique_ptr<HttpServer> http_;  // destroyed first: its threads use the rest
};

}  // namespace lamina::server
