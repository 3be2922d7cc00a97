#pragma once
// Plans and results as bytes, for ranks that are processes: a fixed little-endian encoding, the same for every build of one version.

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "scheduler/step.h"

namespace lamina {

/// Overwrites `bytes`, keeping its memory.
void encode(const StepPlan& plan, std::vector<std::byte>& bytes);
void encode(const StepResult& result, std::vector<std::byte>& bytes);

/// Overwrites the value, keeping its memory; takes no more than in proportion to the bytes that are there. An error when they are those of
/// something else, end early, run on, or hold a length or a flag that cannot be: the value may then be anything.
Status decode(std::span<const std::byte> bytes, StepPlan& plan);
Status decode(std::span<const std::byte> bytes, StepResult& result);

}  // namespace lamina
