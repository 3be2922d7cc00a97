#include "base/cpu.h"

#include <string>
#include <vector>

#include "base/strings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace lamina {
namespace {

constexpr Isa kIsas[] = {Isa::kRef, Isa::kAvx2, Isa::kAvx512F, Isa::kAvx512, Isa::kNeon};
constexpr const char* kIsaNames[] = {"ref", "avx2", "avx512f", "avx512", "neon"};

bool has(uint64_t word, int bit) { return (word >> bit & 1U) != 0; }

struct Part {
  const char* name;
  uint32_t CpuidWords::* word;
  int bit;
};
constexpr Part kAvx2Parts[] = {{"AVX", &CpuidWords::leaf1_ecx, 28},
                               {"AVX2", &CpuidWords::leaf7_ebx, 5},
                               {"FMA", &CpuidWords::leaf1_ecx, 12},
                               {"F16C", &CpuidWords::leaf1_ecx, 29}};

/// Whether the operating system saves the registers in `mask` of XCR0.
bool saves(const CpuidWords& words, uint64_t mask) { return has(words.leaf1_ecx, 27) && (words.xcr0 & mask) == mask; }  // OSXSAVE

/// What the avx2 path needs and this machine lacks.
std::vector<std::string> missing_for_avx2(const CpuidWords& words) {
  constexpr uint64_t kYmm = 0x6;  // SSE and AVX state
  std::vector<std::string> missing;
  for (const Part& part : kAvx2Parts) {
    if (!has(words.*part.word, part.bit)) missing.emplace_back(part.name);
  }
  if (missing.empty() && !saves(words, kYmm)) missing.emplace_back("AVX registers saved by the operating system (XSAVE)");
  return missing;
}

constexpr const char* kDotProduct = "the dot product of bytes of ARMv8.2 (asimddp)";

/// What `isa` needs and `features` lacks; null when the path can run.
const char* missing_for(Isa isa, const CpuFeatures& features) {
  if (isa == Isa::kRef) return nullptr;
  if (isa == Isa::kNeon) return features.neon_dot ? nullptr : kDotProduct;
  if (!features.avx2) return "AVX2, FMA and F16C";
  if (isa == Isa::kAvx2) return nullptr;
  if (!features.avx512) return "AVX-512 F, BW, DQ and VL";
  if (isa == Isa::kAvx512F) return nullptr;
  if (!features.avx512_bf16) return "AVX-512 BF16";
  if (!features.avx512_vnni) return "AVX-512 VNNI";
  return nullptr;
}

}  // namespace

const char* isa_name(Isa isa) { return kIsaNames[static_cast<int>(isa)]; }

Result<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (name == isa_name(isa)) return isa;
  }
  std::vector<std::string> names;
  for (const Isa isa : kIsas) names.emplace_back(isa_name(isa));
  return error("LAMINA_ISA=", name, ": no such kernel path; use one of ", join(names, ", "));
}

CpuidWords read_cpuid() {
  CpuidWords words;
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) words.leaf1_ecx = c;
  uint32_t last_subleaf = 0;
  if (__get_cpuid_count(7, 0, &last_subleaf, &b, &c, &d)) words.leaf7_ebx = b, words.leaf7_ecx = c, words.leaf7_edx = d;
  if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) words.leaf7_1_eax = a;
  if (has(words.leaf1_ecx, 27)) {  // OSXSAVE: without it xgetbv is an invalid instruction
    uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    words.xcr0 = uint64_t{high} << 32 | low;
  }
#elif defined(__aarch64__)
  words.arm_hwcap = getauxval(AT_HWCAP);
#endif
  return words;
}

CpuFeatures decode_features(const CpuidWords& words) {
  constexpr uint64_t kZmm = 0xE6;  // SSE and AVX state, opmask and both zmm halves
  CpuFeatures features;
  features.avx2 = missing_for_avx2(words).empty();
  const bool f = has(words.leaf7_ebx, 16), dq = has(words.leaf7_ebx, 17), bw = has(words.leaf7_ebx, 30), vl = has(words.leaf7_ebx, 31);
  features.avx512 = saves(words, kZmm) && features.avx2 && f && dq && bw && vl;
  features.avx512_bf16 = features.avx512 && has(words.leaf7_1_eax, 5);
  features.avx512_vnni = features.avx512 && has(words.leaf7_ecx, 11);
  features.neon_dot = has(words.arm_hwcap, 20);  // HWCAP_ASIMDDP
  return features;
}

bool supports(const CpuFeatures& features, Isa isa) { return missing_for(isa, features) == nullptr; }

std::vector<Isa> supported_isas(const CpuFeatures& features) {
  std::vector<Isa> out;
  for (const Isa isa : kIsas) {
    if (supports(features, isa)) out.push_back(isa);
  }
  return out;
}

Result<Isa> choose_isa(const CpuFeatures& features, std::string_view forced) {
  const Isa best = supported_isas(features).back();
  if (forced.empty()) return best;
  LAMINA_ASSIGN(const Isa isa, parse_isa(forced));
  const char* missing = missing_for(isa, features);
  if (missing == nullptr) return isa;
  return error("LAMINA_ISA=", forced, ": this processor or its operating system does not offer ", missing, "; the fastest path here is ",
               isa_name(best));
}

Status require_fast_path([[maybe_unused]] const CpuidWords& words, std::string_view forced) {
  std::vector<std::string> missing;
#if defined(__x86_64__)
  missing = missing_for_avx2(words);
#elif defined(__aarch64__)
  if (!decode_features(words).neon_dot) missing.emplace_back(kDotProduct);
#endif
  if (missing.empty() || !forced.empty()) return {};
  return error("the fast kernels need what this machine lacks: ", join(missing, ", "),
               "; LAMINA_ISA=ref runs the reference kernels, which are about 20 times slower");
}

}  // namespace lamina
