#pragma once
// Connections: reading requests, writing answers, looking after the client in between.

#include <functional>
#include <memory>

#include "server/http_server.h"

namespace boost::asio {
class io_context;
}

namespace lamina::server {

struct ConnectionsShared;

/// The open connections of a server, and the thread that prepares requests. All calls come from the thread of `io`.
class Connections {
 public:
  Connections(boost::asio::io_context& io, const HttpLimits& limits, HttpHandler& handler);
  /// Waits for the request in preparation.
  ~Connections();

  /// Serves a connected socket, which it owns from now on; beyond the limit it only says that there are too many.
  void open(int descriptor, bool v6);
  /// Connections whose request is being answered.
  size_t active() const;
  /// Calls `on_idle` whenever none is active, at once if none is now.
  void when_idle(std::function<void()> on_idle);
  /// Ends all of them; they unwind on `io`.
  void abort_all();

 private:
  std::unique_ptr<ConnectionsShared> shared_;
};

}  // namespace lamina::server
