#include "layers/rotary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "layers/attention.h"

namespace lamina {
namespace {

using testing::HasSubstr;

RotarySpec plain(int dim, double theta) {
  RotarySpec spec;
  spec.theta = theta;
  spec.head_dim = dim;
  spec.rotary_dim = dim;
  spec.max_position = 4096;
  return spec;
}

RotarySpec scaled(RopeKind kind, int dim, double theta, double factor, int64_t original) {
  RotarySpec spec = plain(dim, theta);
  spec.kind = kind;
  spec.factor = factor;
  spec.original_max_position = original;
  return spec;
}

RotaryEmbedding make(const RotarySpec& spec) {
  Result<RotaryEmbedding> made = RotaryEmbedding::create(spec);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(made).value();
}

std::vector<double> frequencies(const RotaryEmbedding& rope, int64_t rope_length = 1) {
  std::vector<double> out(static_cast<size_t>(rope.spec().rotary_dim / 2));
  rope.inverse_frequencies(rope_length, out.data());
  return out;
}

/// Expected values carry nine significant digits.
void expect_frequencies(const RotaryEmbedding& rope, const std::vector<std::pair<size_t, double>>& expected) {
  const std::vector<double> actual = frequencies(rope);
  for (const auto& [index, value] : expected) EXPECT_NEAR(actual[index] / value, 1.0, 1e-8) << "frequency " << index;
}

TEST(RotaryGolden, Default) {
  const RotaryEmbedding rope = make(plain(128, 5e5));
  expect_frequencies(rope, {{0, 1.0}, {1, 0.814617234}, {16, 0.0376060309}, {32, 0.00141421356}, {63, 2.45514079e-06}});
  EXPECT_EQ(rope.magnitude(), 1.0);
}

TEST(RotaryGolden, Llama3KeepsShortWavesStretchesLongOnesBlendsBetween) {
  RotarySpec spec = scaled(RopeKind::kLlama3, 128, 5e5, 8, 8192);
  spec.low_freq_factor = 1, spec.high_freq_factor = 4;
  expect_frequencies(make(spec), {{1, 0.814617234}, {28, 0.00321144599}, {31, 0.000856751413}, {32, 0.000524846161}, {63, 3.06892599e-07}});
}

TEST(RotaryGolden, YarnWithItsDefaultMagnitude) {
  const RotaryEmbedding rope = make(scaled(RopeKind::kYarn, 128, 1e6, 4, 32768));
  expect_frequencies(rope, {{16, 0.0316227766}, {28, 0.00184827656}, {32, 0.000602941176}, {63, 3.1023444e-07}});
  EXPECT_NEAR(rope.magnitude(), 1.138629436, 1e-9);
}

TEST(RotaryGolden, DeepseekYarnWithEqualMscales) {
  RotarySpec spec = scaled(RopeKind::kDeepseekYarn, 64, 1e4, 40, 4096);
  spec.mscale = 1.0, spec.mscale_all_dim = 1.0;
  const RotaryEmbedding rope = make(spec);
  expect_frequencies(rope, {{12, 0.0268793601}, {16, 0.0055}, {22, 0.000177827941}, {31, 3.33380358e-06}});
  EXPECT_DOUBLE_EQ(rope.magnitude(), 1.0);
}

TEST(RotaryGolden, DynamicBaseOfTwiceTheTrainedLength) {
  const RotaryEmbedding rope = make(scaled(RopeKind::kDynamic, 128, 1e4, 2, 0));
  const double base = 30527.7367488;
  const std::vector<double> actual = frequencies(rope, 8192);
  for (const size_t i : {1U, 31U, 63U}) EXPECT_NEAR(actual[i] * std::pow(base, static_cast<double>(i) / 64), 1.0, 1e-9);
}

TEST(RotaryGolden, LongropeMagnitude) {
  RotarySpec spec = scaled(RopeKind::kLongrope, 8, 1e4, 1, 4096);
  spec.max_position = 131072;
  spec.short_factor = spec.long_factor = {1, 1, 1, 1};
  EXPECT_NEAR(make(spec).magnitude(), 1.19023807142, 1e-10);
}

TEST(Rotary, LinearDividesEveryFrequency) {
  const std::vector<double> base = frequencies(make(plain(16, 1e4)));
  const std::vector<double> actual = frequencies(make(scaled(RopeKind::kLinear, 16, 1e4, 4, 0)));
  for (size_t i = 0; i < base.size(); ++i) EXPECT_DOUBLE_EQ(actual[i], base[i] / 4);
}

TEST(Rotary, DynamicFollowsTheRequestsOwnLengthBeyondTheTrainedOne) {
  const RotaryEmbedding rope = make(scaled(RopeKind::kDynamic, 4, 100, 2, 0));
  EXPECT_EQ(rope.length_rule(), RopeLengthRule::kAtAdmission);
  EXPECT_EQ(rope.threshold(), 4096);
  EXPECT_DOUBLE_EQ(frequencies(rope, 1)[1], 0.1);
  EXPECT_DOUBLE_EQ(frequencies(rope, 4096)[1], 0.1);
  // base' = 100 * (2 * 6144 / 4096 - 1)^(4 / 2) = 400; 100 * (2 * 8192 / 4096 - 1)^2 = 900
  EXPECT_DOUBLE_EQ(frequencies(rope, 6144)[1], 1.0 / 20);
  EXPECT_DOUBLE_EQ(frequencies(rope, 8192)[1], 1.0 / 30);
  EXPECT_DOUBLE_EQ(frequencies(rope, 8192)[0], 1.0);
}

TEST(Rotary, DynamicWithAlphaHasOneBase) {
  RotarySpec spec = scaled(RopeKind::kDynamicAlpha, 4, 100, 1, 0);
  spec.alpha = 5;
  const RotaryEmbedding rope = make(spec);
  EXPECT_EQ(rope.length_rule(), RopeLengthRule::kNone);
  EXPECT_EQ(rope.threshold(), 0);
  EXPECT_DOUBLE_EQ(frequencies(rope, 1)[1], 1.0 / 50);  // base 100 * 5^(4 / 2)
  EXPECT_DOUBLE_EQ(frequencies(rope, 1 << 20)[1], 1.0 / 50);
}

TEST(Rotary, Llama3WithEqualFactorsHasNoBlend) {
  RotarySpec spec = scaled(RopeKind::kLlama3, 16, 1e4, 8, 8192);
  spec.low_freq_factor = spec.high_freq_factor = 2;
  const std::vector<double> base = frequencies(make(plain(16, 1e4)));
  const std::vector<double> actual = frequencies(make(spec));
  for (size_t i = 0; i < base.size(); ++i) {
    const double turns = 8192 * base[i] / (2 * M_PI);
    EXPECT_DOUBLE_EQ(actual[i], turns > 2 ? base[i] : base[i] / 8);
  }
}

TEST(Rotary, YarnWithoutTruncationUsesTheExactRange) {
  RotarySpec spec = scaled(RopeKind::kYarn, 64, 1e4, 4, 64);
  spec.truncate = false;
  // The first dimension that turns 32 times in 64 positions lies below 0, the one that turns once at 8.0637...
  const double high = 64 * std::log(64 / (2 * M_PI)) / (2 * std::log(1e4));
  const std::vector<double> base = frequencies(make(plain(64, 1e4)));
  const std::vector<double> actual = frequencies(make(spec));
  EXPECT_DOUBLE_EQ(actual[4], base[4] / 4 * (4 / high) + base[4] * (1 - 4 / high));
  spec.truncate = true;
  EXPECT_DOUBLE_EQ(frequencies(make(spec))[4], base[4] / 4 * (4 / std::ceil(high)) + base[4] * (1 - 4 / std::ceil(high)));
}

TEST(Rotary, YarnMagnitudeRules) {
  RotarySpec spec = scaled(RopeKind::kYarn, 64, 1e4, 40, 4096);
  const auto g = [](double mscale) { return 0.1 * mscale * std::log(40.0) + 1; };
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), g(1));
  spec.attn_factor = 2;
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), 2 * g(1));
  spec.mscale = 0.5;  // alone it does not count
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), 2 * g(1));
  spec.mscale_all_dim = 0.25;
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), 2 * g(0.5) / g(0.25));
  spec.attention_factor = 0.9;
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), 0.9);
  RotarySpec deepseek = scaled(RopeKind::kDeepseekYarn, 64, 1e4, 40, 4096);
  EXPECT_DOUBLE_EQ(make(deepseek).magnitude(), g(1));
  deepseek.factor = 1;
  EXPECT_DOUBLE_EQ(make(deepseek).magnitude(), 1);
}

RotarySpec longrope() {
  RotarySpec spec = scaled(RopeKind::kLongrope, 4, 100, 1, 32);
  spec.max_position = 128;
  spec.short_factor = {1, 2};
  spec.long_factor = {4, 5};
  return spec;
}

TEST(Rotary, LongropeSwitchesBeyondTheOriginalLength) {
  const RotaryEmbedding rope = make(longrope());
  EXPECT_EQ(rope.length_rule(), RopeLengthRule::kSwitchAtOriginal);
  EXPECT_EQ(rope.threshold(), 32);
  EXPECT_THAT(frequencies(rope, 32), testing::ElementsAre(1.0, testing::DoubleEq(0.05)));
  EXPECT_THAT(frequencies(rope, 33), testing::ElementsAre(0.25, testing::DoubleEq(0.02)));
}

TEST(Rotary, LongropeMagnitudeRules) {
  RotarySpec spec = longrope();
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), std::sqrt(1 + std::log(4.0) / std::log(32.0)));
  spec.factor = 8;
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), std::sqrt(1 + std::log(8.0) / std::log(32.0)));
  spec.attention_factor = 1.5;
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), 1.5);
  spec = longrope();
  spec.max_position = 32;
  EXPECT_DOUBLE_EQ(make(spec).magnitude(), 1.0);
}

TEST(Rotary, FillGivesCosinesThenSinesAtAnyPosition) {
  RotarySpec spec = scaled(RopeKind::kYarn, 8, 1e4, 4, 64);
  spec.attention_factor = 0.5;
  spec.rotary_dim = 6;  // partial rotary: the frequencies are those of the rotated part
  const RotaryEmbedding rope = make(spec);
  const std::vector<double> inv = frequencies(rope);
  const std::vector<int64_t> positions = {0, 1, 37, 1000003};  // far beyond max_position
  std::vector<float> table(positions.size() * 6);
  rope.fill(positions.data(), 1, {table.data(), 4, 6});
  for (size_t t = 0; t < positions.size(); ++t)
    for (size_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(positions[t]) * inv[i];
      EXPECT_EQ(table[t * 6 + i], static_cast<float>(0.5 * std::cos(angle)));
      EXPECT_EQ(table[t * 6 + 3 + i], static_cast<float>(0.5 * std::sin(angle)));
    }
}

TEST(Rotary, ErrorsNameTheKey) {
  const auto message = [](const RotarySpec& spec) {
    const Result<RotaryEmbedding> made = RotaryEmbedding::create(spec);
    return made.ok() ? std::string() : made.error().message;
  };
  RotarySpec spec = longrope();
  spec.short_factor = {1, 2, 3};
  EXPECT_EQ(message(spec), "rope: short_factor has 3 numbers, wanted 2, half of the 4 rotated elements of a head");
  spec = longrope();
  spec.long_factor = {1};
  EXPECT_THAT(message(spec), HasSubstr("long_factor has 1 numbers, wanted 2"));
  spec.long_factor = {1, 0};
  EXPECT_EQ(message(spec), "rope: long_factor is 0, wanted a number greater than 0");
  spec = longrope();
  spec.original_max_position = 1;
  EXPECT_EQ(message(spec), "rope: original_max_position_embeddings is 1, wanted at least 2");
  EXPECT_THAT(message(scaled(RopeKind::kYarn, 64, 1e4, 4, 0)), HasSubstr("original_max_position_embeddings is 0"));
  EXPECT_THAT(message(scaled(RopeKind::kLinear, 64, 1e4, -1, 0)), HasSubstr("factor is -1"));
  EXPECT_THAT(message(plain(64, 1)), HasSubstr("rope_theta is 1"));
  EXPECT_THAT(message(plain(64, std::numeric_limits<double>::quiet_NaN())), HasSubstr("rope_theta"));
  EXPECT_THAT(message(plain(7, 1e4)), HasSubstr("rotary_dim is 7, wanted an even number of 2 to head_dim (7)"));
  EXPECT_THAT(message(scaled(RopeKind::kDynamic, 2, 1e4, 2, 0)), HasSubstr("rotary_dim is 2"));
  spec = plain(8, 1e4);
  spec.rotary_dim = 10;
  EXPECT_THAT(message(spec), HasSubstr("rotary_dim is 10"));
}

// --- the set of a model ---------------------------------------------------------------------------------------------------------------

Arena arena(size_t bytes) { return Arena(Buffer::allocate(bytes).value()); }

struct Step {
  /// prepare() reaches neither the pool nor the attention backend.
  explicit Step(size_t step_bytes, int threads = 2) : memory(arena(step_bytes), arena(64), arena(64)), team(threads, threads) {}
  void prepare(RotarySet& set) {
    memory.begin_step();
    ForwardContext ctx{batch, {nullptr, &team}, memory, kv, *unused};
    set.prepare(ctx);
  }

  ForwardBatch batch;
  StepMemory memory;
  ThreadTeam team;
  KvStore kv = KvStore::create({}, LayerId(0), DType::kF32, 0, 1).value();
  std::unique_ptr<AttentionBackend> unused = make_reference_backend();
};

TEST(RotarySet, EqualSpecsShareOneEmbedding) {
  RotarySet set;
  EXPECT_EQ(set.add(plain(64, 1e4)).value(), 0);
  EXPECT_EQ(set.add(plain(64, 1e6)).value(), 1);
  EXPECT_EQ(set.add(plain(64, 1e4)).value(), 0);
  RotarySpec gptj = plain(64, 1e4);
  gptj.neox = false;
  EXPECT_EQ(set.add(gptj).value(), 2);
  EXPECT_FALSE(set.add(plain(7, 1e4)).ok());
  EXPECT_EQ(set.size(), 3);
}

TEST(RotarySet, OneLengthRuleServesAllLayers) {
  RotarySet set;
  ASSERT_TRUE(set.add(plain(8, 1e4)).ok());
  EXPECT_EQ(set.length_rule(), RopeLengthRule::kNone);
  ASSERT_TRUE(set.add(longrope()).ok());
  EXPECT_EQ(set.length_rule(), RopeLengthRule::kSwitchAtOriginal);
  EXPECT_EQ(set.threshold(), longrope().original_max_position);
  RotarySpec other = longrope();
  other.original_max_position += 1;
  EXPECT_THAT(set.add(other).error().message, testing::HasSubstr("depend on length in different ways"));
}

TEST(RotarySet, EachSequenceHasTheTableOfItsOwnLengthAndPaddingIsZero) {
  RotarySet set;
  ASSERT_TRUE(set.add(longrope()).ok());
  ASSERT_TRUE(set.add(plain(8, 1e4)).ok());
  constexpr int64_t kRows = 67, kReal = 64;
  Step step(set.step_bytes(kRows));
  std::fill_n(step.memory.step().take<float>(kRows * 4), kRows * 4, std::numeric_limits<float>::quiet_NaN());
  step.batch.input_ids.assign(kRows, 0);
  step.batch.real_rows = kReal;
  step.batch.sequences = {{.row_begin = 0, .row_count = 20, .rope_length = 20},
                          {.row_begin = 20, .row_count = 40, .prefix_len = 10, .rope_length = 50},
                          {.row_begin = 60, .row_count = 1, .prefix_len = 31, .rope_length = 32},
                          {.row_begin = 61, .row_count = 3, .prefix_len = 200, .rope_length = 203}};
  for (const BatchSequence& sequence : step.batch.sequences)
    for (int64_t row = 0; row < sequence.row_count; ++row) step.batch.positions.push_back(sequence.prefix_len + row);
  step.batch.positions.resize(kRows, 0);
  step.prepare(set);
  EXPECT_EQ(step.memory.step().peak(), set.step_bytes(kRows));

  for (int index = 0; index < set.size(); ++index) {
    const ConstF32View table = set.table(index);
    ASSERT_EQ(table.rows, kRows);
    ASSERT_EQ(table.cols, set.at(index).spec().rotary_dim);
    std::vector<float> expected(static_cast<size_t>(table.cols));
    for (const BatchSequence& sequence : step.batch.sequences)
      for (int64_t row = sequence.row_begin; row < sequence.row_begin + sequence.row_count; ++row) {
        set.at(index).fill(&step.batch.positions[static_cast<size_t>(row)], sequence.rope_length, {expected.data(), 1, table.cols});
        EXPECT_EQ(std::vector<float>(table.row(row), table.row(row) + table.cols), expected) << "table " << index << " row " << row;
      }
    for (int64_t row = kReal; row < kRows; ++row)
      for (int64_t c = 0; c < table.cols; ++c) EXPECT_EQ(table.at(row, c), 0.0F);
  }
}

}  // namespace
}  // namespace lamina
