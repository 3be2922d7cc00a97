#pragma once
// What one chat template may use. An error that ends a render names the limit.

#include <cstddef>
#include <cstdint>

namespace lamina::jinja {

inline constexpr size_t kMaxSourceBytes = size_t{4} << 20;
/// Expressions and statements inside one another, and links of one chain such as a.b.c, in the source.
inline constexpr int kMaxNesting = 200;
/// One step is one node evaluated, one element visited or 32 bytes copied: some 50 ns.
inline constexpr uint64_t kMaxSteps = 20'000'000;
/// Of text, lists and variables made during one render, counted whether still in use or not.
inline constexpr size_t kMaxBytes = size_t{512} << 20;
/// Nodes in evaluation inside one another: less than 2 MiB of stack.
inline constexpr int kMaxDepth = 3000;
/// Macros, callers and recursive loops running inside one another.
inline constexpr int kMaxCalls = 200;
/// Lists and objects inside one another in one value.
inline constexpr int kMaxValueDepth = 256;
/// Elements of one range().
inline constexpr int64_t kMaxRange = 100'000;
/// Width and precision in format specifications, so that no number makes a megabyte.
inline constexpr int kMaxFormatWidth = 100'000;

}  // namespace lamina::jinja
