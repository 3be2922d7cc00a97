#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/attention_support.h"

namespace lamina::kernels::testing {
namespace {

class Attention : public KernelTest {
 protected:
  /// Rounding of queries and weights: the dot-product unit takes bf16, also keys and values that were multiplied by a head's scale.
  double operand_rounding(const AttentionCase& c) const {
    if (GetParam() != Isa::kAvx512 || c.kv_dtype == DType::kF32 || c.exact) return 0.0;
    return c.head_scales ? 0x1p-7 : 0x1p-8;
  }

  void expect_exact(const AttentionCase& c, const AttentionData& data, const std::vector<float>& out) const {
    for (int64_t token = c.tokens - c.queries; token < c.tokens; ++token)
      for (int head = 0; head < c.q_heads; ++head) {
        const AttentionRow row = exact_attention(c, data, token, head, operand_rounding(c));
        for (int d = 0; d < c.v_dim; ++d)
          ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>((token * c.q_heads + head) * c.v_dim + d)]),
                      row.out[static_cast<size_t>(d)], row.bound[static_cast<size_t>(d)])
              << "token " << token << " head " << head << " dim " << d;
      }
  }
};

std::vector<float> blank(const AttentionCase& c) { return std::vector<float>(static_cast<size_t>(c.tokens * c.q_heads * c.v_dim), -7.0F); }

struct KvKind {
  DType dtype;
  bool head_scales = false;
};
constexpr KvKind kKvKinds[] = {{DType::kF32}, {DType::kBF16}, {DType::kF8E4M3}, {DType::kF8E5M2}, {DType::kI8}, {DType::kI8, true}};

/// Calls f for every combination of the options; sizes and paging are drawn.
template <class F>
void for_every_option(Random& random, F&& f) {
  constexpr std::array<std::array<int, 2>, 3> kHeads{{{3, 3}, {8, 2}, {5, 1}}};
  constexpr std::array<std::array<int, 2>, 4> kDims{{{64, 64}, {20, 28}, {7, 5}, {80, 33}}};
  constexpr std::array<int64_t, 4> kPages{1, 3, 16, 64};
  for (const auto mask : {AttentionMask::kCausal, AttentionMask::kBidirectional})
    for (const int64_t window : {-1, 0, 1, 5, 70})
      for (const float cap : {0.0F, 2.5F})
        for (const KvKind kind : {kKvKinds[0], kKvKinds[1], kKvKinds[random.integer(2, 5)]})
          for (const auto& heads : kHeads) {
            const auto& dims = kDims[static_cast<size_t>(random.integer(0, 3))];
            AttentionCase c{.q_heads = heads[0],
                            .kv_heads = heads[1],
                            .qk_dim = dims[0],
                            .v_dim = dims[1],
                            .kv_dtype = kind.dtype,
                            .head_scales = kind.head_scales};
            c.exact = random.integer(0, 3) == 0;
            c.page_size = kPages[static_cast<size_t>(random.integer(0, 3))];
            c.tokens = random.integer(1, 150);
            c.queries = random.integer(1, std::min<int64_t>(c.tokens, 40));
            c.window = window, c.cap = cap, c.mask = mask;
            f(c);
          }
}

TEST_P(Attention, AgreesWithFloat64OverAllOptionsWithNanInUnusedSlots) {
  Random random(31);
  SCOPED_TRACE(random.seed_text());
  ThreadTeam team(2, 2);
  for_every_option(random, [&](const AttentionCase& c) {
    SCOPED_TRACE(describe(c));
    const AttentionData data(random, c);
    PagedRequest request(random, c);
    request.store(kernels, data, 0, c.tokens);
    std::vector<float> out = blank(c);
    request.attend(kernels, team, data, {c.tokens - c.queries, c.tokens, c.tokens}, out);
    expect_exact(c, data, out);
  });
}

TEST_P(Attention, PrefillChunksAndSingleTokensGiveTheSameBits) {
  Random random(32);
  SCOPED_TRACE(random.seed_text());
  ThreadTeam team(2, 2);
  for_every_option(random, [&](AttentionCase c) {
    if (c.mask != AttentionMask::kCausal) return;  // bidirectional rows see the future: chunks change the question
    c.queries = c.tokens;
    SCOPED_TRACE(describe(c));
    const AttentionData data(random, c);
    PagedRequest whole(random, c);
    whole.store(kernels, data, 0, c.tokens);
    std::vector<float> expected = blank(c);
    whole.attend(kernels, team, data, {0, c.tokens, c.tokens}, expected);
    for (const int64_t most : {1, 50}) {
      c.page_size = c.page_size == 1 ? 64 : c.page_size == 64 ? 3 : 1;
      PagedRequest chunked(random, c);
      std::vector<float> out = blank(c);
      for (int64_t begin = 0; begin < c.tokens;) {
        const int64_t end = std::min(c.tokens, begin + random.integer(1, most));
        chunked.store(kernels, data, begin, end);
        chunked.attend(kernels, team, data, {begin, end, end}, out);
        begin = end;
      }
      ASSERT_TRUE(same_bits(out, expected)) << "chunks of at most " << most << ", page " << c.page_size;
    }
  });
}

TEST_P(Attention, AKeyARowDoesNotSeeCannotHarmIt) {
  Random random(33);
  SCOPED_TRACE(random.seed_text());
  ThreadTeam team(1, 1);
  for (const KvKind kind : kKvKinds)
    for (const int64_t window : {-1, 6}) {
      const AttentionCase c{.kv_dtype = kind.dtype, .head_scales = kind.head_scales, .tokens = 75, .queries = 75, .window = window};
      const AttentionData data(random, c);
      PagedRequest clean(random, c);
      clean.store(kernels, data, 0, c.tokens);
      std::vector<float> expected = blank(c);
      clean.attend(kernels, team, data, {0, c.tokens, c.tokens}, expected);

      AttentionData spoilt = data;
      const int64_t width = c.kv_heads * c.v_dim;
      for (const int64_t token : {20, 71}) {
        std::fill_n(spoilt.v.begin() + token * width, width, std::numeric_limits<float>::infinity());
        std::fill_n(spoilt.k.begin() + token * c.kv_heads * c.qk_dim, c.kv_heads * c.qk_dim, std::numeric_limits<float>::quiet_NaN());
      }
      PagedRequest harmed(random, c);
      harmed.store(kernels, spoilt, 0, c.tokens);
      std::vector<float> out = blank(c);
      harmed.attend(kernels, team, data, {0, c.tokens, c.tokens}, out);
      const int64_t row = c.q_heads * c.v_dim;
      for (int64_t token = 0; token < c.tokens; ++token) {
        const bool sees = window < 0 ? token >= 20 : (token >= 20 && token < 26) || (token >= 71 && token < 77);
        if (sees) continue;
        const auto part = [&](const std::vector<float>& all) {
          return std::vector<float>(all.begin() + token * row, all.begin() + (token + 1) * row);
        };
        ASSERT_TRUE(same_bits(part(out), part(expected))) << "token " << token << " window " << window;
      }
    }
}

TEST_P(Attention, ThreadsAndNeighboursChangeNoBit) {
  Random random(34);
  SCOPED_TRACE(random.seed_text());
  const AttentionCase c{.q_heads = 8, .kv_heads = 2, .qk_dim = 32, .v_dim = 48, .tokens = 130, .queries = 130};
  const AttentionData data(random, c);
  PagedRequest request(random, c);
  request.store(kernels, data, 0, c.tokens);
  std::vector<float> expected = blank(c);
  ThreadTeam one(1, 1);
  request.attend(kernels, one, data, {0, c.tokens, c.tokens}, expected);
  ThreadTeam three(3, 2);
  std::vector<float> out = blank(c);
  request.attend(kernels, three, data, {0, c.tokens, c.tokens}, out);
  EXPECT_TRUE(same_bits(out, expected));
}

TEST_P(Attention, QueriesMayBeginAnywhereAndSeeMoreOrFewerKeysThanTheyAre) {
  Random random(35);
  SCOPED_TRACE(random.seed_text());
  ThreadTeam team(2, 2);
  AttentionCase c{.tokens = 90, .queries = 90};
  const AttentionData data(random, c);
  PagedRequest request(random, c);
  request.store(kernels, data, 0, 70);
  std::vector<float> out = blank(c);
  request.attend(kernels, team, data, {60, 90, 70}, out);  // 20 of the queries lie beyond the last key
  const int64_t row = c.q_heads * c.v_dim;
  for (int64_t i = 0; i < 60 * row; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], -7.0F) << "rows of no sequence are not touched";
  for (int64_t i = 60 * row; i < 90 * row; ++i) ASSERT_TRUE(std::isfinite(out[static_cast<size_t>(i)]));
  request.attend(kernels, team, data, {0, 5, 0}, out);  // no key at all
  for (int64_t i = 0; i < 5 * row; ++i) ASSERT_EQ(out[static_cast<size_t>(i)], 0.0F);
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  Random random(36);
  SCOPED_TRACE(random.seed_text());
  ThreadTeam team(1, 1);
  for (const auto dtype : {DType::kF32, DType::kBF16}) {
    const AttentionCase c{.kv_dtype = dtype, .tokens = 140, .queries = 3};
    AttentionData data(random, c);
    for (float& value : data.q) value *= 200.0F;
    PagedRequest request(random, c);
    request.store(kernels, data, 0, c.tokens);
    std::vector<float> out = blank(c);
    request.attend(kernels, team, data, {c.tokens - 3, c.tokens, c.tokens}, out);
    for (size_t i = out.size() - 3 * 4 * 64; i < out.size(); ++i) {
      ASSERT_TRUE(std::isfinite(out[i]));
      ASSERT_LE(std::fabs(out[i]), 6.0F) << "a mean lies among the values";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Attention, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
