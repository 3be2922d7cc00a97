#pragma once
// An engine behind a server on a free port, in this process.

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "server/server.h"
#include "tests/server/client.h"
#include "tests/support/safetensors_writer.h"

namespace lamina::server_test {

inline const std::string kDemo = LAMINA_SOURCE_DIR "/models/demo";

class LiveServer {
 public:
  explicit LiveServer(EngineOptions engine, server::ServerOptions options = {});
  /// Drains; the ledger must be exact and nothing may run.
  ~LiveServer();

  int port() const { return server_->port(); }
  Engine& engine() { return *engine_; }
  server::Server& server() { return *server_; }
  Response post(std::string_view path, std::string_view body) const { return server_test::post(port(), path, body); }
  Response get(std::string_view path) const { return server_test::get(port(), path); }

  /// Asks /health until `condition` holds, ten seconds at most; whether it held.
  bool eventually(const std::function<bool(const EngineStats&)>& condition);
  /// Expects that nothing runs, waits or holds pages soon, and that an ordinary request is answered.
  void expect_at_rest();
  /// Expects that a small request is answered well.
  void expect_good_request();

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<server::Server> server_;
  std::thread thread_;
};

/// Options of the shipped demo model.
EngineOptions demo_options();

/// A random model of byte tokens in a folder of its own; "<256>" and further tokens are special. No BOS.
class ToyFolder {
 public:
  explicit ToyFolder(int64_t context = 65536);
  EngineOptions options() const;
  const fixture::TempFolder& folder() const { return folder_; }

 private:
  fixture::TempFolder folder_;
};

}  // namespace lamina::server_test
