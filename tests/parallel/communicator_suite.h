#pragma once
// What every communicator must do, whether its ranks are threads or processes.

#include <span>
#include <string>

#include "parallel/communicator.h"

namespace lamina::suite {

/// All ranks of a group run it together; it returns what this rank saw wrong, or nothing.
struct Check {
  const char* name;
  std::string (*run)(Communicator& communicator);
};

std::span<const Check> checks();

}  // namespace lamina::suite
