#pragma once
// What the handlers of one server share.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "server/metrics.h"
#include "server/options.h"

namespace lamina::server {

/// Which engine requests belong to which answer, so that /abort_request finds them. Thread-safe.
class LiveRequests {
 public:
  /// Several answers may use one id; an abort ends them all.
  void add(const std::string& id, const std::vector<RequestId>& requests);
  void remove(const std::string& id, const std::vector<RequestId>& requests);
  std::vector<RequestId> of(const std::string& id);
  std::vector<RequestId> all();

 private:
  std::mutex mutex_;
  std::unordered_multimap<std::string, RequestId> requests_;
};

struct ServerContext {
  ServerContext(Engine& engine_used, const ServerOptions& options);

  Engine& engine;
  std::string model_id;     // what requests call the model
  SamplingParams defaults;  // of what a request leaves open
  int64_t created;          // Unix seconds of the start
  Metrics metrics;
  LiveRequests live;

  /// "cmpl-3f0c..." : unique for this server.
  std::string new_id(std::string_view prefix);
  /// A seed that fits a double, so that every JSON reader keeps it.
  uint64_t new_seed();
  int vocab() const;
  int64_t context_length() const { return engine.info().context_length; }
  /// nullptr when the checkpoint has none.
  const Tokenizer* tokenizer() const;

 private:
  uint64_t key_;
  std::atomic<uint64_t> counter_{0};
};

/// Unix seconds.
int64_t unix_time();

}  // namespace lamina::server
