#pragma once
// Counter-based random numbers: a pure function of key and counter (Philox4x32-10; Salmon et al., SC 2011).

#include <array>
#include <cstdint>

namespace lamina {

/// Ten rounds: four uniform 32-bit words. The published test vectors are in tests/base/rng_test.cc.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Uniform in [0, 1), 53 bits, keyed by (seed, stream, index): the sampler uses (seed, choice index, output position).
double uniform(uint64_t seed, uint64_t stream, uint64_t index);

/// A seed from the operating system.
uint64_t fresh_seed();

}  // namespace lamina
