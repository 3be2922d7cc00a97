#pragma once
// What this process may use: instruction sets and processors.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lamina {

/// Kernel paths; those of one kind of processor slowest first.
enum class Isa { kRef, kAvx2, kAvx512F, kAvx512, kNeon };
/// "ref", "avx2", "avx512f", "avx512", "neon"; parse_isa reads the same names.
const char* isa_name(Isa isa);
Result<Isa> parse_isa(std::string_view name);

/// What a processor says of itself, raw, so that tests can describe other machines: CPUID and XGETBV words of an x86, AT_HWCAP of
/// an AArch64.
struct CpuidWords {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint64_t xcr0 = 0;
  uint64_t arm_hwcap = 0;
};
CpuidWords read_cpuid();

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C, with the OS saving ymm state
  bool avx512 = false;       // F, BW, DQ, VL with the OS saving zmm state
  bool avx512_bf16 = false;  // vdpbf16ps
  bool avx512_vnni = false;  // vpdpbusd
  bool neon_dot = false;     // AArch64: dot products of bytes (sdot)
};
/// A feature counts only when both the CPU has it and the operating system saves its registers (XCR0).
CpuFeatures decode_features(const CpuidWords& words);

/// Whether a processor with `features` can run the path. One without any has the reference path.
bool supports(const CpuFeatures& features, Isa isa);
/// The paths it can run, slowest first.
std::vector<Isa> supported_isas(const CpuFeatures& features);

/// The fastest path for `features`, or the one named by `forced` (LAMINA_ISA; empty = automatic); an error when this CPU lacks it.
/// kAvx512F needs avx512, kAvx512 also avx512_bf16 and avx512_vnni; kNeon needs neon_dot.
Result<Isa> choose_isa(const CpuFeatures& features, std::string_view forced);

/// An error where an x86 or an AArch64 can run the reference path only and nobody asked for it: it names what is missing and
/// LAMINA_ISA=ref. `forced` as above.
Status require_fast_path(const CpuidWords& words, std::string_view forced);

/// Where limits are read from; tests point it at a fake tree.
struct LimitSources {
  std::string proc_self_cgroup = "/proc/self/cgroup";
  std::string cgroup_root = "/sys/fs/cgroup";
  std::string meminfo = "/proc/meminfo";
  int affinity_cpus = 0;  // 0: ask sched_getaffinity
};
/// min(affinity, ceil(cgroup quota)), at least 1. The quota is the smallest of this process's cgroup and all above it, v1 and v2.
int usable_cpus(const LimitSources& sources = {});

/// Bytes this process may still use: min(MemAvailable, cgroup limit - cgroup use), over this process's cgroup and all above it. File pages
/// count as unused, since the kernel takes them back under pressure: a checkpoint just read would otherwise count as used.
uint64_t available_memory(const LimitSources& sources = {});
/// Peak resident set in bytes (VmHWM).
uint64_t peak_rss();
uint64_t current_rss();
/// Of it what no file backs (RssAnon).
uint64_t anonymous_rss();

}  // namespace lamina
