#include "layers/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
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

/// 259 ids over 1 to 4 ranks and over 8, the last three of which hold padding only.
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
                                           Setup{4, 128, DType::kF32}, Setup{8, 64, DType::kF32}, Setup{1, 320, DType::kBF16},
                                           Setup{2, 192, DType::kBF16}, Setup{3, 128, DType::kBF16}, Setup{8, 64, DType::kBF16}),
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
    const F32View logits = head.forward(rank.ctx, input(rank, head, x_), 0);
    ASSERT_EQ(logits.cols, kVocab);
    EXPECT_EQ(logits.data == nullptr, rank.index() != 0);
    if (rank.index() == 0) expect_product(logits, x_, table_);
    EXPECT_LE(rank.ctx.arena().mark(), head.stage_bytes(kRows));
  });
}

TEST_P(Vocab, CandidatesAreLogitsOfTheWholeRowAndHoldItsLargest) {
  on_all([&](TestRank& rank) {
    const ParallelLMHead head(rank.build, "lm_head", kVocab, kHidden);
    rank.load({{"lm_head.weight", table_}});
    for (const int candidates : {1, 3, 16, 200}) {
      rank.ctx.arena().reset();
      const F32View logits = head.forward(rank.ctx, input(rank, head, x_), candidates);
      EXPECT_LE(rank.ctx.arena().mark(), head.stage_bytes(kRows)) << candidates;
      ASSERT_EQ(logits.cols, kVocab);
      EXPECT_EQ(logits.data == nullptr, rank.index() != 0);
      if (rank.index() != 0) continue;
      for (int64_t r = 0; r < kRows; ++r) {
        std::vector<std::pair<float, int64_t>> whole;  // negated: largest first, lowest id of equals
        for (int64_t id = 0; id < kVocab; ++id) {
          float logit = 0;  // exact
          for (int64_t c = 0; c < kHidden; ++c) logit += x_.at(r, c) * table_.at(id, c);
          whole.emplace_back(-logit, id);
          EXPECT_TRUE(logits.at(r, id) == logit || logits.at(r, id) == -std::numeric_limits<float>::infinity());
        }
        std::sort(whole.begin(), whole.end());
        for (int c = 0; c < candidates; ++c) {
          const auto [negated, id] = whole[static_cast<size_t>(c)];
          EXPECT_EQ(logits.at(r, id), -negated) << "row " << r << ", id " << id;
        }
      }
    }
  });
}

TEST_P(Vocab, PaddingRowsNeverWinHoweverSmallTheLogits) {
  const Matrix ones(1, kHidden, 1.0F), huge(1, kHidden, 1e20F);
  Matrix negative(kVocab, kHidden, -4096.0F);
  for (int64_t c = 0; c < kHidden; ++c) negative.view().at(258, c) = -1024.0F;
  on_all([&](TestRank& rank) {
    const ParallelLMHead head(rank.build, "lm_head", kVocab, kHidden);
    rank.load({{"lm_head.weight", negative}});
    for (const bool filled : {false, true}) {  // zeros first: above every logit already
      const ShardCut own = *cut({ShardRule::kVocab, kVocab, 1, &head.group()}, "lm_head");
      ParamStore& store = *rank.params.find("lm_head.weight")->store;
      for (int64_t row = own.count; filled && row < own.local.value; ++row)
        store.put(row, {huge.values.data(), DType::kF32, 1, kHidden, kHidden});
      for (const int candidates : {0, 1, 5}) {
        rank.ctx.arena().reset();
        const F32View logits = head.forward(rank.ctx, input(rank, head, ones), candidates);
        ASSERT_EQ(logits.cols, kVocab);
        if (rank.index() != 0) continue;
        EXPECT_EQ(logits.at(0, 258), -1024.0F * kHidden);
        for (int64_t id = 0; id < 258; ++id) EXPECT_LE(logits.at(0, id), -4096.0F * kHidden) << "id " << id;
      }
    }
  });
}

TEST_P(Vocab, TiedHeadMultipliesTheEmbeddingItself) {
  on_all([&](TestRank& rank) {
    const VocabParallelEmbedding embed(rank.build, "embed_tokens", kVocab, kHidden);
    const ParallelLMHead head(rank.build, embed);
    EXPECT_EQ(rank.params.all().size(), 1U);
    EXPECT_EQ(head.vocab_size(), kVocab);
    rank.load({{"embed_tokens.weight", table_}});
    const F32View logits = head.forward(rank.ctx, input(rank, head, x_), 0);
    ASSERT_EQ(logits.cols, kVocab);
    if (rank.index() == 0) expect_product(logits, x_, table_);
  });
}

TEST(VocabErrors, AGroupThatDoesNotExistIsNamed) {
  TestRank rank(ParallelGroups::single());
  const VocabParallelEmbedding embed(rank.build, "embed_tokens", kVocab, kHidden, "vocab_tp");
  EXPECT_THAT(rank.error(), ::testing::HasSubstr("\"vocab_tp\" must exist before construction"));
}

TEST(VocabErrors, ATiedHeadIsCutAsTheEmbedding) {
  for (const int dp : {1, 2}) {
    TestRank rank(*ParallelGroups::planned({.tp_size = 4, .dp_attention = dp}, 0));
    const VocabParallelEmbedding embed(rank.build, "embed_tokens", kVocab, kHidden);
    const ParallelLMHead head(rank.build, embed, "attn_tp");
    if (dp == 1)
      EXPECT_EQ(rank.error(), "");
    else
      EXPECT_THAT(rank.error(), ::testing::AllOf(::testing::HasSubstr("--enable-dp-lm-head"), ::testing::HasSubstr("tie_word_embeddings")));
  }
}

}  // namespace
}  // namespace lamina
