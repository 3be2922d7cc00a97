#pragma once
// What the machine can do at most, measured: the two rates that matmul and attention are compared with. Best of several passes; a
// measurement that must not suffer from a busy neighbour takes the best of several calls between the runs it is compared with.

#include "kernels/kernels.h"
#include "tensor/buffer.h"

namespace lamina::kernels {

/// Memory to read: `bytes` rounded down to whole 64-byte lines (at least one), huge pages, written once so that real pages back it.
Result<Buffer> make_read_memory(ThreadTeam& team, size_t bytes);

/// Bytes a second that all threads together read of `memory`; well above the caches' size it is the memory's bandwidth.
double measure_read_bandwidth(const Kernels& kernels, ThreadTeam& team, const Buffer& memory);

/// Floating-point operations a second of all threads in this path's bf16 multiply-adds over independent accumulators, in registers.
/// Takes some 30 ms.
double measure_dot_peak(const Kernels& kernels, ThreadTeam& team);

}  // namespace lamina::kernels
