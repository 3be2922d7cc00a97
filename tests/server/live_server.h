#pragma once
// An engine behind a server on a free port, in this process.

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "server/server.h"
#include "tests/server/client.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/step_gate.h"

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

  /// Before the first request: the engine makes at most one step between two looks of eventually(), and none while nobody looks. What takes
  /// thousands of steps then outlives whatever the server notices within a few answers to /health, on a machine of any speed.
  void step_by_step();
  /// While requests go on: returns when a step waits that no look has allowed. None ends before the next look, or step_freely().
  void hold() { gate_.hold(); }
  /// Ends step_by_step().
  void step_freely() { gate_.open(); }

  /// Asks /health until `condition` holds, a minute at most; whether it held.
  bool eventually(const std::function<bool(const EngineStats&)>& condition);
  /// Expects that nothing runs, waits or holds pages soon, and that an ordinary request is answered; steps come freely then.
  void expect_at_rest();
  /// Expects that a small request is answered well.
  void expect_good_request();

 private:
  fixture::StepGate gate_;
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
