#include "layers/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/layers/attention_step.h"

namespace lamina::attention_test {
namespace {

using testing::HasSubstr;

/// Every backend on every ISA of this machine (the reference backend has none).
std::vector<Options> backends() {
  std::vector<Options> out = {{.reference = true}};
  for (const Isa isa : supported_isas(decode_features(read_cpuid()))) out.push_back({.isa = isa});
  return out;
}

std::string describe(const Options& setup) {
  return cat(setup.reference ? "reference" : cat("paged ", isa_name(setup.isa)), ", kv ", dtype_name(setup.kv_dtype), ", page size ",
             setup.page_size);
}

// --- the table ------------------------------------------------------------------------------------------------------------------------

struct Heads {
  const char* name;
  int q, kv;
};
struct Type {
  const char* name;
  AttentionType type;
};
constexpr Heads kHeads[] = {{"Mha", 2, 2}, {"Gqa", 4, 2}, {"Mqa", 3, 1}};
constexpr Type kTypes[] = {{"Decoder", AttentionType::kDecoder},
                           {"Bidirectional", AttentionType::kDecoderBidirectional},
                           {"EncoderOnly", AttentionType::kEncoderOnly}};
const std::map<std::string, Plan> kScenarios = {
    {"prefill", {{0, 70}}}, {"chunked", {{90, 37}}}, {"decode", {{130, 1}}}, {"ragged", {{0, 5}, {130, 1}, {40, 30}, {3, 1}}}};

class AttentionTable : public testing::TestWithParam<std::tuple<Heads, Type>> {
 protected:
  /// All backends and page sizes for one set of options. Page size and threads change no bit.
  static void check(const Data& data, const RadixAttentionSpec& spec, DType kv_dtype) {
    const Expected expected = oracle(data, spec, kv_dtype);
    const auto [low, high] = std::minmax_element(expected.value.begin(), expected.value.end());
    ASSERT_GT(*high - *low, 0.1) << "the data does not vary";
    const std::vector<KvEntry> given = step_entries(data.plan);
    for (Options setup : backends()) {
      std::vector<float> first;
      setup.kv_dtype = kv_dtype;
      for (const int page_size : {1, 16}) {
        setup.page_size = page_size;
        setup.threads = page_size == 1 ? 1 : 2;
        SCOPED_TRACE(describe(setup));
        StepRun run(data, spec, setup, given);
        run.forward();
        run.expect(expected);
        run.expect_pool();
        if (testing::Test::HasFatalFailure()) return;
        if (page_size == 1) first = run.out();
        ASSERT_EQ(first, run.out());
      }
    }
  }
};

TEST_P(AttentionTable, EqualsFloat64) {
  const auto [heads, type] = GetParam();
  constexpr uint64_t kSeed = 20240607;
  for (const auto& [name, plan] : kScenarios) {
    const Data data = make_data(plan, heads.q, heads.kv, kSeed);
    for (const int64_t window : {-1, 1, 8, 100})
      for (const float cap : {0.0F, 30.0F})
        for (const DType kv_dtype : {DType::kF32, DType::kBF16}) {
          SCOPED_TRACE(cat(name, ", window ", window, ", cap ", cap, ", seed ", kSeed));
          RadixAttentionSpec spec = valid_spec();
          spec.q_heads = heads.q, spec.kv_heads = heads.kv;
          spec.type = type.type;
          spec.window = window, spec.logit_cap = cap;
          check(data, spec, kv_dtype);
          if (HasFatalFailure()) return;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, AttentionTable, testing::Combine(testing::ValuesIn(kHeads), testing::ValuesIn(kTypes)),
                         [](const auto& param) { return std::string(std::get<0>(param.param).name) + std::get<1>(param.param).name; });

// --- passes whose keys and values are not those of the query rows ----------------------------------------------------------------------

class AttentionBackends : public testing::TestWithParam<Options> {};

TEST_P(AttentionBackends, WithoutSavingTheyReadThePoolAndWriteNothing) {
  const Data data = make_data({{20, 3}, {0, 4}}, 4, 2, 1);
  const RadixAttentionSpec spec = valid_spec();
  Options setup = GetParam();
  setup.save = false;
  const std::vector<KvEntry> given = step_entries(data.plan);  // handed over as NaN
  StepRun run(data, spec, setup, given);
  run.forward();
  run.expect(oracle(data, spec, setup.kv_dtype));
  run.expect_pool();
}

TEST_P(AttentionBackends, FewerKeysThanQueriesWriteOnlyTheFirstSlots) {
  const Data data = make_data({{20, 6}}, 4, 2, 2);
  const RadixAttentionSpec spec = valid_spec();
  const Options setup = GetParam();
  const std::vector<KvEntry> given = {{0, 20}, {0, 21}};
  StepRun run(data, spec, setup, given);
  run.forward();
  run.expect(oracle(data, spec, setup.kv_dtype));
  run.expect_pool();
}

TEST_P(AttentionBackends, MoreKeysThanQueriesAreAllWritten) {
  const Data data = make_data({{90, 1}}, 4, 2, 3);
  const RadixAttentionSpec spec = valid_spec();
  const Options setup = GetParam();
  std::vector<KvEntry> given;
  for (int64_t p = 60; p <= 90; ++p) given.push_back({0, p});
  StepRun run(data, spec, setup, given);
  run.forward();
  run.expect(oracle(data, spec, setup.kv_dtype));
  run.expect_pool();
}

TEST_P(AttentionBackends, TheOutputIsRoundedOnceToTheDtypeAskedFor) {
  const Data data = make_data({{20, 6}}, 4, 2, 4);
  const RadixAttentionSpec spec = valid_spec();
  Options setup = GetParam();
  const std::vector<KvEntry> given = step_entries(data.plan);
  StepRun full(data, spec, setup, given);
  full.forward();
  setup.out_dtype = DType::kBF16;
  StepRun half(data, spec, setup, given);
  half.forward();
  ASSERT_EQ(full.out().size(), half.out().size());
  for (size_t i = 0; i < full.out().size(); ++i) EXPECT_EQ(half.out()[i], rounded(DType::kBF16, full.out()[i]));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackends, testing::ValuesIn(backends()), [](const auto& param) {
  return param.param.reference ? std::string("Reference") : cat("Paged_", isa_name(param.param.isa));
});

// --- the adapter alone ------------------------------------------------------------------------------------------------------------------

struct UncallableBackend final : AttentionBackend {
  const char* name() const override { return "uncallable"; }
  void forward(ForwardContext&, const AttentionCall&) override { ADD_FAILURE() << "called"; }
  size_t stage_bytes(const RadixAttentionSpec&, int) const override { return 0; }
};

struct Idle {
  Build build;
  RadixAttention attention{build.context, valid_spec()};
  ForwardBatch batch;
  StepMemory memory{Arena(Buffer::allocate(64).value()), Arena(Buffer::allocate(4096).value()), Arena(Buffer::allocate(64).value())};
  ThreadTeam team{1, 1};
  KvStore kv = KvStore::create({attention.kv_shape()}, LayerId(3), DType::kF32, 1, 16).value();
  UncallableBackend backend;
  ForwardContext ctx{batch, {&kernels::table(Isa::kRef), &team}, memory, kv, backend};
  Matrix q{2, 4 * kQkDim, kNaN}, k{2, 2 * kQkDim, kNaN}, v{2, 2 * kVDim, kNaN};
  Idle() { batch.input_ids.assign(2, 0), batch.positions.assign(2, 0), batch.out_cache_loc.assign(2, 0); }
};

TEST(RadixAttention, ABatchWithoutRealRowsCallsNoBackendAndIsZero) {
  Idle idle;
  const ConstF32View out = idle.attention.forward(idle.ctx, idle.q.view(), idle.k.view(), idle.v.view(), DType::kF32).f32();
  ASSERT_EQ(out.rows, 2);
  for (int64_t c = 0; c < out.cols; ++c) EXPECT_EQ(out.at(0, c) + out.at(1, c), 0.0F);
}

TEST(RadixAttentionDeathTest, KeysOfAnotherLayerAreNotShared) {
  Idle idle;
  EXPECT_DEATH(idle.attention.forward(idle.ctx, idle.q.view(), {}, idle.v.view(), DType::kF32), "keys and values of its own");
  EXPECT_DEATH(idle.attention.forward(idle.ctx, idle.q.view(), idle.k.view(), {}, DType::kF32), "keys and values of its own");
}

std::string construction_error(const RadixAttentionSpec& spec) {
  Build build;
  const RadixAttention attention(build.context, spec);
  return build.context.status().ok() ? std::string() : build.context.status().error().message;
}

TEST(RadixAttention, ConstructionRefusesWhatIsNotSupported) {
  EXPECT_EQ(construction_error(valid_spec()), "");
  RadixAttentionSpec spec = valid_spec();
  spec.cross_attention = true;
  EXPECT_THAT(construction_error(spec), HasSubstr("model.layers.3.self_attn.attn: cross-attention is not supported"));
  spec = valid_spec();
  spec.q_heads = 5;
  EXPECT_THAT(construction_error(spec), HasSubstr("5 query heads over 2 key heads"));
  spec = valid_spec();
  spec.kv_heads = 0;
  EXPECT_THAT(construction_error(spec), HasSubstr("over 0 key heads"));
  spec = valid_spec();
  spec.qk_dim = 0;
  EXPECT_THAT(construction_error(spec), HasSubstr("head sizes 0"));
  spec = valid_spec();
  spec.window = 0;
  EXPECT_THAT(construction_error(spec), HasSubstr("window is 0"));
  spec = valid_spec();
  spec.logit_cap = -1;
  EXPECT_THAT(construction_error(spec), HasSubstr("logit cap is -1"));
}

TEST(RadixAttention, ValuesAreAsWideAsKeysUnlessSaidOtherwise) {
  Build build;
  RadixAttentionSpec spec = valid_spec();
  spec.v_dim = 0;
  const RadixAttention attention(build.context, spec);
  EXPECT_EQ(attention.kv_shape().v_dim, kQkDim);
  EXPECT_TRUE(build.context.status().ok());
}

}  // namespace
}  // namespace lamina::attention_test
