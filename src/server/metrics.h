#pragma once
// What /metrics shows: SGLang's names with the prefix lamina_ (docs/API.md lists them).

#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace lamina::server {

/// Thread-safe.
class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();

  // Seconds, measured where events leave the engine.
  void first_token(double seconds);
  void next_token(double seconds);
  void request_end(double seconds);
  /// `endpoint` is a route of the server, never what a client wrote.
  void response(std::string_view endpoint, std::string_view method, int status);

  /// Prometheus text format 0.0.4, with the engine's counters of this moment.
  std::string text(const EngineStats& stats, int page_size);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina::server
