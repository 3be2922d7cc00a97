#include "server/options.h"

#include "base/strings.h"

namespace lamina::server {

Status validate(const ServerOptions& options) {
  if (options.port < 0 || options.port > 65535) return error("--port ", options.port, ": allowed are 0 (any free one) to 65535");
  if (options.sampling_defaults != "model" && options.sampling_defaults != "openai") {
    return error("--sampling-defaults ", options.sampling_defaults, ": allowed are model, openai");
  }
  if (!(options.drain_timeout >= 0 && options.drain_timeout <= 86400)) {
    return error("--drain-timeout ", options.drain_timeout, ": allowed are 0 to 86400 seconds");
  }
  if (!(options.watchdog_timeout > 0 && options.watchdog_timeout <= 86400)) {
    return error("--watchdog-timeout ", options.watchdog_timeout, ": allowed are values above 0 and up to 86400 seconds");
  }
  return {};
}

}  // namespace lamina::server
