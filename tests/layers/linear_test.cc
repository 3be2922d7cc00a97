#include "layers/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::exact_matrix;
using layer_test::expect_product;
using layer_test::Matrix;
using layer_test::on_ranks;
using layer_test::on_topology;
using layer_test::Tensors;
using layer_test::TestRank;
using ::testing::HasSubstr;

constexpr int64_t kRows = 5, kIn = 72;

/// x's columns [begin, begin + count) as this rank's input, in a row stride of its own.
Matrix columns(const Matrix& x, int64_t begin, int64_t count) { return layer_test::copy(x.view().columns(begin, count)); }

struct Setup {
  int ranks;
  DType dtype;
};

class Linear : public ::testing::TestWithParam<Setup> {
 protected:
  int ranks() const { return GetParam().ranks; }
  template <class Body>
  void on_all(Body body) const {
    on_ranks(ranks(), GetParam().dtype, body);
  }
  /// Memory is that which the layer announced.
  static void expect_memory(TestRank& rank, const LinearLayer& layer) {
    EXPECT_EQ(layer.input_dtype(), rank.format->name() == std::string("float32") ? DType::kF32 : DType::kBF16);
    EXPECT_LE(rank.ctx.arena().mark(), layer.stage_bytes(kRows));
  }

  const Matrix x_ = exact_matrix(kRows, kIn, 1);
};

INSTANTIATE_TEST_SUITE_P(, Linear,
                         ::testing::Values(Setup{1, DType::kF32}, Setup{2, DType::kF32}, Setup{4, DType::kF32}, Setup{1, DType::kBF16},
                                           Setup{2, DType::kBF16}, Setup{4, DType::kBF16}),
                         [](const auto& instance) {
                           return cat(instance.param.dtype == DType::kF32 ? "F32" : "Bf16", "On", instance.param.ranks);
                         });

TEST_P(Linear, ReplicatedGivesAllColumnsOnEveryRank) {
  const Tensors tensors = {{"m.fc.weight", exact_matrix(37, kIn, 2)}, {"m.fc.bias", exact_matrix(37, 1, 3)}};
  on_all([&](TestRank& rank) {
    const ReplicatedLinear layer(rank.build, {.name = "m.fc", .in_features = kIn, .out_features = 37, .bias = true});
    rank.load(tensors);
    const F32View out = layer.forward(rank.ctx, x_.view());
    ASSERT_EQ(out.cols, 37);
    expect_product(out, x_, tensors.at("m.fc.weight"), &tensors.at("m.fc.bias"));
    expect_memory(rank, layer);
  });
}

TEST_P(Linear, ColumnParallelGivesTheRanksColumns) {
  const Tensors tensors = {{"fc.weight", exact_matrix(52, kIn, 4)}, {"fc.bias", exact_matrix(52, 1, 5)}};
  on_all([&](TestRank& rank) {
    const ColumnParallelLinear layer(rank.build, {.name = "fc", .in_features = kIn, .out_features = 52, .bias = true});
    rank.load(tensors);
    const F32View out = layer.forward(rank.ctx, x_.view());
    ASSERT_EQ(out.cols * ranks(), 52);
    EXPECT_EQ(layer.local_out(), out.cols);
    expect_product(out, x_, tensors.at("fc.weight"), &tensors.at("fc.bias"), rank.index() * out.cols);
    expect_memory(rank, layer);
  });
}

TEST_P(Linear, GatheredColumnParallelGivesAllColumnsOnEveryRank) {
  const Tensors tensors = {{"fc.weight", exact_matrix(52, kIn, 6)}, {"fc.bias", exact_matrix(52, 1, 7)}};
  on_all([&](TestRank& rank) {
    const ColumnParallelLinear layer(rank.build, {.name = "fc", .in_features = kIn, .out_features = 52, .bias = true}, true);
    rank.load(tensors);
    const F32View out = layer.forward(rank.ctx, x_.view());
    ASSERT_EQ(out.cols, 52);
    expect_product(out, x_, tensors.at("fc.weight"), &tensors.at("fc.bias"));
    EXPECT_LE(rank.ctx.arena().mark(), layer.stage_bytes(kRows));
  });
}

TEST_P(Linear, MergedOutputsOfUnequalSizesStandSideBySideOnEachRank) {
  const Tensors tensors = {{"mlp.a_proj.weight", exact_matrix(12, kIn, 8)},  {"mlp.a_proj.bias", exact_matrix(12, 1, 9)},
                           {"mlp.b_proj.weight", exact_matrix(44, kIn, 10)}, {"mlp.b_proj.bias", exact_matrix(44, 1, 11)},
                           {"mlp.c_proj.weight", exact_matrix(4, kIn, 12)},  {"mlp.c_proj.bias", exact_matrix(4, 1, 13)}};
  on_all([&](TestRank& rank) {
    const MergedColumnParallelLinear layer(rank.build, {.name = "mlp.abc_proj", .in_features = kIn, .bias = true},
                                           {{"a_proj", 12}, {"b_proj", 44}, {"c_proj", 4}});
    rank.load(tensors);
    const F32View out = layer.forward(rank.ctx, x_.view());
    ASSERT_EQ(out.cols * ranks(), 12 + 44 + 4);
    int64_t column = 0;
    for (const char* module : {"a_proj", "b_proj", "c_proj"}) {
      const Matrix& weight = tensors.at(cat("mlp.", module, ".weight"));
      const int64_t local = weight.rows / ranks();
      expect_product(out.columns(column, local), x_, weight, &tensors.at(cat("mlp.", module, ".bias")), rank.index() * local);
      column += local;
    }
    expect_memory(rank, layer);
  });
}

TEST_P(Linear, AnInputInTheMatmulsTypeIsTakenAsItIs) {
  const Tensors tensors = {{"fc.weight", exact_matrix(9, kIn, 14)}};
  on_all([&](TestRank& rank) {
    const ReplicatedLinear layer(rank.build, {.name = "fc", .in_features = kIn, .out_features = 9});
    rank.load(tensors);
    const MutableActivation x = rank.memory.step().activation(layer.input_dtype(), kRows, kIn);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t k = 0; k < kIn; ++k) x.store(r, k, x_.at(r, k));
    const size_t before = rank.ctx.arena().mark();
    expect_product(layer.forward(rank.ctx, x.view()), x_, tensors.at("fc.weight"));
    EXPECT_LE(rank.ctx.arena().mark() - before, size_t{kRows * 9 * 4 + 64});  // the output alone
  });
}

TEST_P(Linear, NoRowsGiveNoRows) {
  const Tensors tensors = {{"fc.weight", exact_matrix(8, kIn, 15)}};
  on_all([&](TestRank& rank) {
    const RowParallelLinear layer(rank.build, {.name = "fc", .in_features = kIn, .out_features = 8}, false);
    rank.load(tensors);
    const F32View out = layer.complete(rank.ctx, x_.view().slice(0, 0));
    EXPECT_EQ(out.rows, 0);
    EXPECT_EQ(out.cols, 8);
  });
}

TEST_P(Linear, SkippedBiasIsReturnedAndNotAdded) {
  const Tensors tensors = {{"up.weight", exact_matrix(20, kIn, 16)},
                           {"up.bias", exact_matrix(20, 1, 17)},
                           {"down.weight", exact_matrix(7, kIn, 18)},
                           {"down.bias", exact_matrix(7, 1, 19)}};
  on_all([&](TestRank& rank) {
    const ColumnParallelLinear up(rank.build, {.name = "up", .in_features = kIn, .out_features = 20, .bias = true, .skip_bias_add = true});
    const RowParallelLinear down(rank.build, {.name = "down", .in_features = kIn, .out_features = 7, .bias = true, .skip_bias_add = true},
                                 false);
    rank.load(tensors);
    const int64_t local = 20 / ranks();
    expect_product(up.forward(rank.ctx, x_.view()), x_, tensors.at("up.weight"), nullptr, rank.index() * local);
    const auto up_begin = tensors.at("up.bias").values.begin() + rank.index() * local;
    EXPECT_EQ(std::vector<float>(up.bias().begin(), up.bias().end()), std::vector<float>(up_begin, up_begin + local));
    expect_product(down.complete(rank.ctx, x_.view()), x_, tensors.at("down.weight"));
    EXPECT_EQ(std::vector<float>(down.bias().begin(), down.bias().end()), tensors.at("down.bias").values);
  });
}

TEST_P(Linear, WithoutBiasThereIsNone) {
  on_all([&](TestRank& rank) {
    const ReplicatedLinear layer(rank.build, {.name = "fc", .in_features = kIn, .out_features = 8});
    EXPECT_TRUE(layer.bias().empty());
    EXPECT_EQ(rank.params.all().size(), 1U);
  });
}

// --- row-parallel --------------------------------------------------------------------------------------------------------------------

TEST_P(Linear, RowParallelOwesTheProductOfTheRanksSlice) {
  const Tensors tensors = {{"o_proj.weight", exact_matrix(33, kIn, 20)}, {"o_proj.bias", exact_matrix(33, 1, 21)}};
  on_all([&](TestRank& rank) {
    const RowParallelLinear layer(rank.build, {.name = "o_proj", .in_features = kIn, .out_features = 33, .bias = true});
    rank.load(tensors);
    const int64_t local = kIn / ranks();
    const Matrix x = columns(x_, rank.index() * local, local);
    const PartialAccess::Owed owed = PartialAccess::consume(layer.forward(rank.ctx, x.view()));
    EXPECT_EQ(owed.group, rank.groups.find("tp").value());
    const Matrix slice = columns(tensors.at("o_proj.weight"), rank.index() * local, local);
    expect_product(owed.values, x, slice, rank.index() == 0 ? &tensors.at("o_proj.bias") : nullptr);
    expect_memory(rank, layer);
  });
}

TEST_P(Linear, CompleteSumsOverTheRanks) {
  const Tensors tensors = {{"o_proj.weight", exact_matrix(33, kIn, 22)}, {"o_proj.bias", exact_matrix(33, 1, 23)}};
  on_all([&](TestRank& rank) {
    const RowParallelLinear layer(rank.build, {.name = "o_proj", .in_features = kIn, .out_features = 33, .bias = true});
    rank.load(tensors);
    const int64_t local = kIn / ranks();
    const Matrix x = columns(x_, rank.index() * local, local);
    expect_product(layer.complete(rank.ctx, x.view()), x_, tensors.at("o_proj.weight"), &tensors.at("o_proj.bias"));
  });
}

TEST_P(Linear, RowParallelTakesItsSliceOfAWholeInput) {
  const Tensors tensors = {{"o_proj.weight", exact_matrix(33, kIn, 24)}};
  on_all([&](TestRank& rank) {
    const RowParallelLinear layer(rank.build, {.name = "o_proj", .in_features = kIn, .out_features = 33}, false);
    rank.load(tensors);
    expect_product(layer.complete(rank.ctx, x_.view()), x_, tensors.at("o_proj.weight"));
    expect_memory(rank, layer);
  });
}

TEST_P(Linear, RowParallelAddsItsBiasOnce) {
  const Tensors tensors = {{"o_proj.weight", exact_matrix(6, kIn, 25)}, {"o_proj.bias", Matrix(6, 1, 3.0F)}};
  const Matrix zeros(2, kIn);
  on_all([&](TestRank& rank) {
    const RowParallelLinear layer(rank.build, {.name = "o_proj", .in_features = kIn, .out_features = 6, .bias = true}, false);
    rank.load(tensors);
    const F32View out = layer.complete(rank.ctx, zeros.view());
    EXPECT_EQ(layer_test::copy(out).values, std::vector<float>(12, 3.0F));
  });
}

// --- QKV -----------------------------------------------------------------------------------------------------------------------------

struct HeadShape {
  int heads, kv_heads, qk_dim, v_dim;
};

Tensors qkv_tensors(const HeadShape& shape) {
  const std::pair<const char*, int> sizes[] = {
      {"q_proj", shape.heads * shape.qk_dim}, {"k_proj", shape.kv_heads * shape.qk_dim}, {"v_proj", shape.kv_heads * shape.v_dim}};
  Tensors out;
  uint32_t seed = 30;
  for (const auto& [module, rows] : sizes) {
    out[cat("attn.", module, ".weight")] = exact_matrix(rows, kIn, seed++);
    out[cat("attn.", module, ".bias")] = exact_matrix(rows, 1, seed++);
  }
  return out;
}

/// The layer's heads on this rank: query heads from `q_head` on, KV heads from `kv_head` on.
void expect_qkv(TestRank& rank, const HeadShape& shape, std::string_view kv_group, int q_head, int kv_head, std::string_view group = "tp") {
  const Tensors tensors = qkv_tensors(shape);
  const Matrix x = exact_matrix(kRows, kIn, 29);
  const QkvParallelLinear layer(rank.build, {.name = "attn.qkv_proj",
                                             .hidden_size = kIn,
                                             .heads = shape.heads,
                                             .kv_heads = shape.kv_heads,
                                             .qk_dim = shape.qk_dim,
                                             .v_dim = shape.v_dim,
                                             .bias = true,
                                             .group = group,
                                             .kv_group = kv_group});
  rank.load(tensors);
  const QkvParallelLinear::Heads out = layer.forward(rank.ctx, x.view());
  ASSERT_EQ(out.q.cols, layer.heads().q_heads * shape.qk_dim);
  ASSERT_EQ(out.k.cols, layer.heads().kv_heads * shape.qk_dim);
  ASSERT_EQ(out.v.cols, layer.heads().kv_heads * shape.v_dim);
  expect_product(out.q, x, tensors.at("attn.q_proj.weight"), &tensors.at("attn.q_proj.bias"), q_head * shape.qk_dim);
  expect_product(out.k, x, tensors.at("attn.k_proj.weight"), &tensors.at("attn.k_proj.bias"), kv_head * shape.qk_dim);
  expect_product(out.v, x, tensors.at("attn.v_proj.weight"), &tensors.at("attn.v_proj.bias"), kv_head * shape.v_dim);
}

TEST_P(Linear, QkvGivesTheRanksHeads) {
  on_all([&](TestRank& rank) { expect_qkv(rank, {8, 4, 6, 6}, "", rank.index() * 8 / ranks(), rank.index() * 4 / ranks()); });
}

TEST_P(Linear, QkvReplicatesKvHeadsWhenRanksOutnumberThem) {
  on_all([&](TestRank& rank) { expect_qkv(rank, {8, 2, 6, 6}, "", rank.index() * 8 / ranks(), rank.index() * 2 / ranks()); });
}

TEST_P(Linear, QkvValuesHaveADimOfTheirOwn) {
  on_all([&](TestRank& rank) { expect_qkv(rank, {4, 4, 6, 10}, "", rank.index() * 4 / ranks(), rank.index() * 4 / ranks()); });
}

TEST_P(Linear, QkvCutsKvHeadsOverAGroupOfTheirOwn) {
  on_all([&](TestRank& rank) {
    // Pairs of ranks stand for one: as many KV ranks as KV heads.
    const int kv_ranks = std::max(1, ranks() / 2);
    ASSERT_TRUE(rank.groups.add_replicated("kv", "tp", ranks() / kv_ranks).ok());
    expect_qkv(rank, {8, kv_ranks, 6, 10}, "kv", rank.index() * 8 / ranks(), rank.index("kv"));
  });
}

TEST(QkvOnEight, EveryFourRanksShareAKvHead) {
  on_ranks(8, DType::kF32, [&](TestRank& rank) { expect_qkv(rank, {8, 2, 6, 6}, "", rank.index(), rank.index() / 4); });
}

TEST(AttentionDp, CutsAttentionOverTheRanksOfOneCopyAndOwesTheSumToThem) {
  const Matrix x = exact_matrix(kRows, kIn, 41);
  const Tensors tensors = {{"o_proj.weight", exact_matrix(33, kIn, 40)}};
  on_topology({.tp_size = 4, .dp_attention = 2}, DType::kBF16, [&](TestRank& rank) {
    const int own = rank.index("attn_tp");
    EXPECT_EQ(own, rank.index("tp") % 2);
    expect_qkv(rank, {8, 2, 6, 6}, "", own * 4, own, "attn_tp");
  });
  on_topology({.tp_size = 4, .dp_attention = 2}, DType::kBF16, [&](TestRank& rank) {
    const RowParallelLinear layer(rank.build, {.name = "o_proj", .in_features = kIn, .out_features = 33, .group = "attn_tp"}, false);
    rank.load(tensors);
    expect_product(layer.complete(rank.ctx, x.view()), x, tensors.at("o_proj.weight"));
  });
}

// --- what cannot be built ------------------------------------------------------------------------------------------------------------

ParallelGroups planned(int tp) { return ParallelGroups::planned({.tp_size = tp}, 0).value(); }

TEST(LinearErrors, AGroupThatDoesNotExistIsNamedWithThoseThatDo) {
  TestRank rank(planned(1));
  const RowParallelLinear layer(rank.build, {.name = "o_proj", .in_features = 8, .out_features = 8, .group = "shared_experts_tp"});
  EXPECT_THAT(rank.error(), HasSubstr("\"shared_experts_tp\" must exist before construction"));
  EXPECT_THAT(rank.error(), HasSubstr("attn_tp"));

  TestRank other(planned(1));
  const QkvParallelLinear qkv(other.build,
                              {.name = "qkv_proj", .hidden_size = 8, .heads = 2, .kv_heads = 2, .qk_dim = 4, .kv_group = "kv_tp"});
  EXPECT_THAT(other.error(), HasSubstr("\"kv_tp\" must exist before construction"));
}

TEST(LinearErrors, SizesThatDoNotDivideNameTheLayerTheFlagAndBothNumbers) {
  TestRank column(planned(4));
  const ColumnParallelLinear up(column.build, {.name = "mlp.up_proj", .in_features = 8, .out_features = 10, .bias = true});
  EXPECT_EQ(column.error(), "mlp.up_proj: 10 features do not divide over --tp-size 4");

  TestRank row(planned(4));
  const RowParallelLinear down(row.build, {.name = "mlp.down_proj", .in_features = 10, .out_features = 8, .bias = true});
  EXPECT_EQ(row.error(), "mlp.down_proj: 10 features do not divide over --tp-size 4");

  TestRank merged(planned(4));
  const MergedColumnParallelLinear gate_up(merged.build, {.name = "mlp.gate_up_proj", .in_features = 8},
                                           {{"gate_proj", 8}, {"up_proj", 6}});
  EXPECT_EQ(merged.error(), "mlp.gate_up_proj: 6 features do not divide over --tp-size 4");
}

std::string qkv_error(int tp, int heads, int kv_heads, int kv_factor = 1) {
  TestRank rank(planned(tp));
  EXPECT_TRUE(rank.groups.add_replicated("kv", "tp", kv_factor).ok());
  const QkvParallelLinear layer(
      rank.build,
      {.name = "attn.qkv_proj", .hidden_size = 8, .heads = heads, .kv_heads = kv_heads, .qk_dim = 4, .bias = true, .kv_group = "kv"});
  return rank.error();
}

TEST(LinearErrors, HeadsThatDoNotDivideNameTheFlagAndBothNumbers) {
  EXPECT_EQ(qkv_error(4, 28, 4), "");
  EXPECT_EQ(qkv_error(8, 28, 4), "attn.qkv_proj: 28 heads do not divide over --tp-size 8");
  EXPECT_EQ(qkv_error(4, 40, 10), "attn.qkv_proj: 10 KV heads do not divide over --tp-size 4");
  EXPECT_THAT(qkv_error(8, 24, 3), HasSubstr("attn.qkv_proj: 3 KV heads cannot be replicated over --tp-size 8"));
  EXPECT_THAT(qkv_error(1, 6, 4), HasSubstr("6 heads are not a multiple of 4 KV heads"));
}

TEST(LinearErrors, AKvGroupThatGivesARankOtherHeadsThanItReadsIsRefused) {
  EXPECT_THAT(qkv_error(4, 8, 2, 4), HasSubstr("KV heads that its 2 of 8 heads do not read"));
}

TEST(LinearErrors, TheFirstErrorIsKept) {
  TestRank rank(planned(4));
  const ColumnParallelLinear first(rank.build, {.name = "first", .in_features = 8, .out_features = 9});
  const ColumnParallelLinear second(rank.build, {.name = "second", .in_features = 8, .out_features = 9});
  EXPECT_THAT(rank.error(), HasSubstr("first: "));
}

TEST(LinearDeathTest, AnInputOfAnotherWidthIsRefusedByName) {
  TestRank rank(planned(1));
  const ReplicatedLinear layer(rank.build, {.name = "model.fc", .in_features = 8, .out_features = 4});
  rank.load({{"model.fc.weight", exact_matrix(4, 8, 50)}});
  const Matrix narrow(1, 7);
  EXPECT_DEATH((void)layer.forward(rank.ctx, narrow.view()), "model.fc");
}

}  // namespace
}  // namespace lamina
