#include "base/cpu.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

constexpr uint32_t bit(int n) { return 1U << n; }

CpuidWords haswell() {
  CpuidWords words;
  words.leaf1_ecx = bit(12) | bit(27) | bit(28) | bit(29);
  words.leaf7_ebx = bit(5);
  words.xcr0 = 0x7;
  return words;
}

CpuidWords skylake_server() {
  CpuidWords words = haswell();
  words.leaf7_ebx |= bit(16) | bit(17) | bit(30) | bit(31);
  words.xcr0 = 0xE7;
  return words;
}

CpuidWords cascade_lake() {
  CpuidWords words = skylake_server();
  words.leaf7_ecx |= bit(11);
  return words;
}

CpuidWords sapphire_rapids() {
  CpuidWords words = cascade_lake();
  words.leaf7_1_eax |= bit(5);
  return words;
}

Isa automatic(const CpuidWords& words) { return *choose_isa(decode_features(words), ""); }

TEST(Cpu, PicksTheFastestPathOfEachGeneration) {
  EXPECT_EQ(automatic({}), Isa::kRef);
  EXPECT_EQ(automatic(haswell()), Isa::kAvx2);
  EXPECT_EQ(automatic(skylake_server()), Isa::kAvx512F);
  EXPECT_EQ(automatic(cascade_lake()), Isa::kAvx512F);  // the avx512 path multiplies bf16 too
  EXPECT_EQ(automatic(sapphire_rapids()), Isa::kAvx512);
  EXPECT_TRUE(decode_features(sapphire_rapids()).avx512_vnni);
  EXPECT_FALSE(decode_features(skylake_server()).avx512_vnni);
}

TEST(Cpu, AFeatureWithoutSavedRegistersDoesNotCount) {
  CpuidWords words = sapphire_rapids();
  words.xcr0 = 0x7;  // the operating system saves ymm only
  EXPECT_EQ(automatic(words), Isa::kAvx2);
  words.xcr0 = 0x67;  // opmask and low zmm, not the upper sixteen
  EXPECT_EQ(automatic(words), Isa::kAvx2);
  words.xcr0 = 0x3;
  EXPECT_EQ(automatic(words), Isa::kRef);
  words = sapphire_rapids();
  words.leaf1_ecx &= ~bit(27);  // no OSXSAVE
  EXPECT_EQ(automatic(words), Isa::kRef);
}

TEST(Cpu, EveryPartOfAPathIsNeeded) {
  for (int part : {12, 28, 29}) {
    CpuidWords words = sapphire_rapids();
    words.leaf1_ecx &= ~bit(part);
    EXPECT_EQ(automatic(words), Isa::kRef) << part;
  }
  for (int part : {16, 17, 30, 31}) {
    CpuidWords words = sapphire_rapids();
    words.leaf7_ebx &= ~bit(part);
    EXPECT_EQ(automatic(words), Isa::kAvx2) << part;
  }
  CpuidWords words = sapphire_rapids();
  words.leaf7_ecx = 0;  // no VNNI
  EXPECT_EQ(automatic(words), Isa::kAvx512F);
  EXPECT_NE(choose_isa(decode_features(words), "avx512").error().message.find("AVX-512 VNNI"), std::string::npos);
}

TEST(Cpu, AForcedPathIsTakenOrRefusedWithWhatIsMissing) {
  const auto features = decode_features(skylake_server());
  EXPECT_EQ(*choose_isa(features, "ref"), Isa::kRef);
  EXPECT_EQ(*choose_isa(features, "avx2"), Isa::kAvx2);
  EXPECT_EQ(*choose_isa(features, "avx512f"), Isa::kAvx512F);
  EXPECT_EQ(choose_isa(features, "avx512").error().message,
            "LAMINA_ISA=avx512: this processor or its operating system does not offer AVX-512 BF16; the fastest path here is avx512f");
  for (const char* name : {"avx512f", "avx512"}) {
    EXPECT_NE(choose_isa(decode_features(haswell()), name).error().message.find("AVX-512 F, BW, DQ and VL"), std::string::npos);
  }
  EXPECT_NE(choose_isa({}, "avx2").error().message.find("AVX2, FMA and F16C; the fastest path here is ref"), std::string::npos);
  EXPECT_EQ(choose_isa(features, "sse").error().message,
            "LAMINA_ISA=sse: no such kernel path; use one of ref, avx2, avx512f, avx512, neon");
}

TEST(Cpu, AnAArch64HasNeonWhereItHasDotProducts) {
  const CpuidWords neoverse_n1{.arm_hwcap = 0x3 | bit(20)};  // fp, asimd, asimddp
  const CpuidWords cortex_a72{.arm_hwcap = 0x3};
  EXPECT_EQ(automatic(neoverse_n1), Isa::kNeon);
  EXPECT_EQ(automatic(cortex_a72), Isa::kRef);
  EXPECT_NE(choose_isa(decode_features(cortex_a72), "neon").error().message.find("asimddp"), std::string::npos);
  EXPECT_NE(choose_isa(decode_features(sapphire_rapids()), "neon").error().message.find("the fastest path here is avx512"),
            std::string::npos);
  EXPECT_FALSE(choose_isa(decode_features(neoverse_n1), "avx2").ok());
}

TEST(Cpu, NamesRoundTrip) {
  EXPECT_EQ(supported_isas(decode_features(sapphire_rapids())), (std::vector<Isa>{Isa::kRef, Isa::kAvx2, Isa::kAvx512F, Isa::kAvx512}));
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512F, Isa::kAvx512, Isa::kNeon}) EXPECT_EQ(*parse_isa(isa_name(isa)), isa);
}

#if defined(__aarch64__)
TEST(Cpu, WithoutAFastPathTheReferenceHasToBeAskedFor) {
  EXPECT_TRUE(require_fast_path({.arm_hwcap = bit(20)}, "").ok());
  EXPECT_TRUE(require_fast_path({}, "ref").ok());
  EXPECT_NE(require_fast_path({}, "").error().message.find("asimddp"), std::string::npos);
}
#endif

#if defined(__x86_64__)
TEST(Cpu, WithoutAFastPathTheReferenceHasToBeAskedFor) {
  const auto refusal = [](const CpuidWords& words) { return require_fast_path(words, "").error().message; };
  EXPECT_TRUE(require_fast_path(haswell(), "").ok());
  EXPECT_TRUE(require_fast_path({}, "ref").ok());
  EXPECT_EQ(refusal({}),
            "the fast kernels need what this machine lacks: AVX, AVX2, FMA, F16C; "
            "LAMINA_ISA=ref runs the reference kernels, which are about 20 times slower");
  CpuidWords words = haswell();
  words.leaf1_ecx &= ~bit(29);
  EXPECT_NE(refusal(words).find(" lacks: F16C;"), std::string::npos);
  words = haswell();
  words.xcr0 = 0x3;
  EXPECT_NE(refusal(words).find(" lacks: AVX registers saved by the operating system (XSAVE);"), std::string::npos);
}

TEST(Cpu, ThisMachineAgreesWithTheCompilersRuntime) {
  __builtin_cpu_init();
  const CpuFeatures features = decode_features(read_cpuid());
  EXPECT_EQ(features.avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(features.avx512, __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
}
#endif

}  // namespace
}  // namespace lamina
