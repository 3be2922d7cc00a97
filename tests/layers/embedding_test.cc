#include "layers/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::exact_matrix;
using layer_test::expect_bits;
using layer_test::expect_product;
using layer_test::Matrix;
using layer_test::on_ranks;
using layer_test::TestRank;

constexpr int64_t kVocab = 259, kHidden = 40, kRows = 6;

struct Setup {
  int ranks;
  int64_t local_rows;  // a multiple of 64
  DType dtype;
};

/// 259 ids over 1, 2, 3 ranks and over 8, the last two of which hold padding only.
class Vocab : public ::testing::TestWithParam<Setup> {
 protected:
  template <class Body>
  void on_all(Body body) const {
    on_ranks(GetParam().ranks, GetParam().dtype, body);
  }
  /// x as the head multiplies it.
  static Activation input(TestRank& rank, const ParallelLMHead& head, const Matrix& x) {
    const MutableActivation out = rank.memory.step().activation(head.input_dtype(), x.rows, x.cols);
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c < x.cols; ++c) out.store(r, c, x.at(r, c));
    return out.view();
  }
  const Matrix table_ = exact_matrix(kVocab, kHidden, 1), x_ = exact_matrix(kRows, kHidden, 2);
};

INSTANTIATE_TEST_SUITE_P(, Vocab,
                         ::testing::Values(Setup{1, 320, DType::kF32}, Setup{2, 192, DType::kF32}, Setup{3, 128, DType::kF32},
                                           Setup{8, 64, DType::kF32}, Setup{1, 320, DType::kBF16}, Setup{2, 192, DType::kBF16},
                                           Setup{3, 128, DType::kBF16}, Setup{8, 64, DType::kBF16}),
                         [](const auto& instance) {
                           return cat(instance.param.dtype == DType::kF32 ? "F32" : "Bf16", "On", instance.param.ranks);
                         });

TEST_P(Vocab, EveryIdIsLookedUpOnEveryRank) {
  std::vector<TokenId> ids(kVocab);
  std::iota(ids.rbegin(), ids.rend(), 0);
  Matrix wanted(kVocab, kHidden);
  for (int64_t id = 0; id < kVocab; ++id) std::copy_n(table_.view().row(id), kHidden, wanted.view().row(kVocab - 1 - id));
  on_all([&](TestRank& rank) {
    const VocabParallelEmbedding embed(rank.build, "embed_tokens", kVocab, kHidden);
    EXPECT_EQ(embed.local_rows(), GetParam().local_rows);
    rank.load({{"embed_tokens.weight", table_}});
    Matrix out(kVocab, kHidden, -1.0F);
    embed.forward(rank.ctx, ids, out.view());
    expect_bits(out, wanted);
  });
}

TEST_P(Vocab, HeadGivesTheLogitsOfAllRanksInOrderWithoutPadding) {
  on_all([&](TestRank& rank) {
    const ParallelLMHead head(rank.build, "lm_head", kVocab, kHidden);
    rank.load({{"lm_head.weight", table_}});
    const F32View logits = head.forward(rank.ctx, input(rank, head, x_));
    ASSERT_EQ(logits.cols, kVocab);
    expect_product(logits, x_, table_);
    EXPECT_LE(rank.ctx.arena().mark(), head.stage_bytes(kRows));
  });
}

TEST_P(Vocab, TiedHeadMultipliesTheEmbeddingItself) {
  on_all([&](TestRank& rank) {
    const VocabParallelEmbedding embed(rank.build, "embed_tokens", kVocab, kHidden);
    const ParallelLMHead head(embed);
    EXPECT_EQ(rank.params.all().size(), 1U);
    EXPECT_EQ(head.vocab_size(), kVocab);
    rank.load({{"embed_tokens.weight", table_}});
    const F32View logits = head.forward(rank.ctx, input(rank, head, x_));
    ASSERT_EQ(logits.cols, kVocab);
    expect_product(logits, x_, table_);
  });
}

TEST(VocabErrors, AGroupThatDoesNotExistIsNamed) {
  TestRank rank(ParallelGroups::single());
  const VocabParallelEmbedding embed(rank.build, "embed_tokens", kVocab, kHidden, "vocab_tp");
  EXPECT_THAT(rank.error(), ::testing::HasSubstr("\"vocab_tp\" must exist before construction"));
}

}  // namespace
}  // namespace lamina
