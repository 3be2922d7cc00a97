#pragma once
// What `lamina serve` can say about the server; names as on the command line.

#include <string>

#include "base/result.h"
#include "server/http_server.h"

namespace lamina::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 30000;                         // 0: any free one
  std::string api_key;                      // empty: none is asked for
  std::string served_model_name;            // empty: the name of the model's folder
  std::string sampling_defaults = "model";  // model | openai
  double drain_timeout = 30;                // seconds that running requests get after SIGTERM
  double watchdog_timeout = 300;            // seconds without a step, while requests run, after which /health fails
  HttpLimits limits;
};

/// Checks ranges and spellings; the error names the flag, the value and what is allowed.
Status validate(const ServerOptions& options);

}  // namespace lamina::server
