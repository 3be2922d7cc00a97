#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "weights/format.h"

namespace lamina {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 70, kCols = 33;

/// One matrix of two parts, filled by hand.
struct Layer {
  explicit Layer(DType model_dtype) : format(make_plain_format({.model_dtype = model_dtype}, kernels::table(Isa::kRef))) {
    weights =
        std::move(format->create_weights(
                      {.name = "mlp.ab",
                       .parts = {{"a", {ShardRule::kReplicate, 40, 1, nullptr}}, {"b", {ShardRule::kReplicate, kRows - 40, 1, nullptr}}},
                       .cols = {ShardRule::kReplicate, kCols, 1, nullptr}},
                      params))
            .value();
  }
  ParamStore& store() { return *params.all().front()->store; }
  std::vector<float> row(int64_t r) const {
    std::vector<float> out(kCols);
    weights->row({&kernels::table(Isa::kRef), nullptr}, r, out.data());
    return out;
  }

  std::unique_ptr<WeightFormat> format;
  ParamList params;
  std::unique_ptr<LinearWeights> weights;
};

std::vector<float> matrix() {
  std::vector<float> out(kRows * kCols);
  for (size_t i = 0; i < out.size(); ++i) out[i] = (static_cast<float>(i * 2654435761U % 1000) - 500.0F) / 3000.0F;
  return out;
}

TEST(PlainFormat, StorageAndComputeFollowModelAndSourceTypes) {
  const DType f32 = DType::kF32, f16 = DType::kF16, bf16 = DType::kBF16;
  struct {
    DType model;
    std::vector<DType> sources;
    DType storage, input;
  } const cases[] = {
      {bf16, {bf16, bf16}, bf16, bf16}, {bf16, {f32, f32}, bf16, bf16}, {bf16, {f16}, bf16, bf16},          {bf16, {f16, f32}, bf16, bf16},
      {f16, {f16, f16}, f16, f32},      {f16, {f16, f32}, f32, f32},    {f16, {f16, bf16}, f32, f32},       {f32, {f32}, f32, f32},
      {f32, {bf16, bf16}, bf16, f32},   {f32, {f16}, f16, f32},         {f32, {bf16, f16, bf16}, f32, f32}, {f32, {bf16, f32}, f32, f32},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(cat(dtype_name(c.model), " model of ", dtype_name(c.sources.front()), " and ", dtype_name(c.sources.back())));
    Layer layer(c.model);
    ASSERT_TRUE(layer.store().plan(c.sources, "w").ok());
    EXPECT_EQ(layer.store().storage_dtype(), c.storage);
    EXPECT_EQ(layer.weights->input_dtype(), c.input);
    EXPECT_EQ(layer.store().bytes(), static_cast<size_t>(96 * (c.storage == bf16 ? 34 : 33) * dtype_bytes(c.storage)));
  }
}

TEST(PlainFormat, OtherTypesAreRefusedByName) {
  Layer layer(DType::kBF16);
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2, DType::kI8, DType::kU8, DType::kI32, DType::kF64, DType::kBool}) {
    EXPECT_EQ(layer.store().plan({DType::kBF16, dtype}, "model.x.weight").error().message,
              cat("model.x.weight: type ", dtype_name(dtype), " cannot be loaded here (allowed: F32, F16, BF16)"));
  }
}

TEST(PlainFormat, WidthsThatDoNotDivideAreRefusedByName) {
  const ParallelGroup three{.name = "tp", .size_flag = "--tp-size", .size = 3, .rank = 0, .communicator = nullptr};
  ParamList params;
  const auto format = make_plain_format({}, kernels::table(Isa::kRef));
  const auto made =
      format->create_weights({"mlp.down_proj", {{"", {ShardRule::kReplicate, 8, 1, nullptr}}}, {ShardRule::kSplit, 10, 1, &three}}, params);
  EXPECT_THAT(made.error().message, testing::AllOf(HasSubstr("mlp.down_proj"), HasSubstr("10"), HasSubstr("--tp-size 3")));
  EXPECT_TRUE(params.all().empty());
}

TEST(PlainFormat, PackingRoundsOnlyForBf16Models) {
  const std::vector<float> values = matrix();
  for (const DType model : {DType::kF32, DType::kBF16}) {
    Layer layer(model);
    ASSERT_TRUE(layer.store().plan({DType::kF32}, "w").ok());
    ASSERT_TRUE(layer.params.reserve().ok());
    layer.store().put(0, {values.data(), DType::kF32, kRows, kCols, kCols});
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<float> row = layer.row(r);
      for (int64_t c = 0; c < kCols; ++c) {
        const float exact = values[static_cast<size_t>(r * kCols + c)];
        EXPECT_EQ(row[static_cast<size_t>(c)], model == DType::kF32 ? exact : bf16_to_f32(f32_to_bf16(exact)));
      }
    }
  }
}

TEST(PlainFormat, RowsNobodyFilledAreZero) {
  const std::vector<float> values = matrix();
  Layer layer(DType::kBF16);
  ASSERT_TRUE(layer.store().plan({DType::kF32}, "w").ok());
  ASSERT_TRUE(layer.params.reserve().ok());
  layer.store().put(0, {values.data(), DType::kF32, 40, kCols, kCols});
  for (int64_t r = 40; r < kRows; ++r) EXPECT_THAT(layer.row(r), testing::Each(0.0F)) << r;
}

TEST(PlainFormat, MatmulIsTheProductWithTheStoredRows) {
  const std::vector<float> values = matrix();
  for (const DType model : {DType::kF32, DType::kBF16}) {
    Layer layer(model);
    ASSERT_TRUE(layer.store().plan({DType::kF32}, "w").ok());
    ASSERT_TRUE(layer.params.reserve().ok());
    layer.store().put(0, {values.data(), DType::kF32, kRows, kCols, kCols});
    std::vector<float> x(2 * kCols), bias(kRows), out(2 * kRows);
    std::vector<uint16_t> x16;
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.0F, x16.push_back(f32_to_bf16(x[i]));
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
    const Activation input =
        model == DType::kF32 ? Activation(ConstF32View(x.data(), 2, kCols)) : Activation(MatrixView<const uint16_t>(x16.data(), 2, kCols));
    ThreadTeam team(1, 1);
    layer.weights->matmul({&kernels::table(Isa::kRef), &team}, input, bias.data(), {out.data(), 2, kRows});
    for (int64_t m = 0; m < 2; ++m) {
      for (int64_t n = 0; n < kRows; ++n) {
        const std::vector<float> row = layer.row(n);
        double want = bias[static_cast<size_t>(n)];
        double size = std::abs(want);
        for (int64_t k = 0; k < kCols; ++k) {
          const double product = double{x[static_cast<size_t>(m * kCols + k)]} * row[static_cast<size_t>(k)];
          want += product, size += std::abs(product);
        }
        EXPECT_NEAR(out[static_cast<size_t>(m * kRows + n)], want, size * kCols * 6e-8);
      }
    }
  }
}

TEST(PlainFormatDeathTest, RowsOutsideTheMatrixAreOurBug) {
  Layer layer(DType::kF32);
  ASSERT_TRUE(layer.store().plan({DType::kF32}, "w").ok());
  ASSERT_TRUE(layer.params.reserve().ok());
  const std::vector<float> values = matrix();
  EXPECT_DEATH(layer.store().put(1, {values.data(), DType::kF32, kRows, kCols, kCols}), "outside the matrix");
  EXPECT_DEATH(layer.store().put(0, {values.data(), DType::kF32, 1, kCols - 1, kCols}), "outside the matrix");
}

TEST(PlainFormat, SaysWhatItKeepsAndOfWhat) {
  const auto words = [](DType model_dtype, const std::vector<DType>& sources) {
    ParamList params;
    const auto format = make_plain_format({model_dtype}, kernels::table(Isa::kRef));
    EXPECT_TRUE(format->create_weights({"m", {{"", {ShardRule::kReplicate, 4, 1}}}, {ShardRule::kReplicate, 4, 1}}, params).ok());
    EXPECT_TRUE(params.all().front()->store->plan(sources, "m.weight").ok());
    return params.all().front()->store->describe();
  };
  EXPECT_EQ(words(DType::kBF16, {DType::kBF16}), "bf16");
  EXPECT_EQ(words(DType::kBF16, {DType::kF32, DType::kF32}), "bf16 from f32");
  EXPECT_EQ(words(DType::kF32, {DType::kBF16, DType::kF16, DType::kBF16}), "f32 from bf16 and f16");
}

}  // namespace
}  // namespace lamina
