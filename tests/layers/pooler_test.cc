#include "layers/pooler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lamina {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kWidth = 3;

/// Three sequences of 2, 1 and 3 rows, the second without pooling, then two padded rows of NaN.
struct Ragged {
  std::vector<float> hidden = {3, 4, 0, 1, 2, 2, 9, 9, 9, 6, 0, 8, 0, 0, 0, 0, 3, 4, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN};
  ForwardBatch batch;
  Ragged() {
    batch.input_ids.assign(8, 0);
    batch.real_rows = 6;
    batch.sequences = {
        {.row_begin = 0, .row_count = 2, .pool = true}, {.row_begin = 2, .row_count = 1}, {.row_begin = 3, .row_count = 3, .pool = true}};
  }
  std::vector<float> pool(PoolingType type, bool normalize, int64_t dimensions = 0) const {
    const int64_t width = dimensions > 0 ? std::min(dimensions, kWidth) : kWidth;
    std::vector<float> out(static_cast<size_t>(2 * width), kNaN);
    Pooler(type, normalize).forward(batch, {hidden.data(), 8, kWidth}, {out.data(), 2, width}, dimensions);
    return out;
  }
};

void expect_near(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_FLOAT_EQ(actual[i], static_cast<float>(expected[i])) << "value " << i;
}

TEST(Pooler, LastTakesTheLastRealRowOfEachSequence) { expect_near(Ragged().pool(PoolingType::kLast, false), {1, 2, 2, 0, 3, 4}); }

TEST(Pooler, ClsTakesTheFirstRow) { expect_near(Ragged().pool(PoolingType::kCls, false), {3, 4, 0, 6, 0, 8}); }

TEST(Pooler, MeanAveragesTheRowsOfEachSequence) { expect_near(Ragged().pool(PoolingType::kMean, false), {2, 3, 1, 2, 1, 4}); }

TEST(Pooler, NormalisedVectorsHaveLengthOne) {
  expect_near(Ragged().pool(PoolingType::kLast, true), {1 / 3.0, 2 / 3.0, 2 / 3.0, 0, 0.6, 0.8});
  const double first = std::sqrt(14.0), second = std::sqrt(21.0);
  expect_near(Ragged().pool(PoolingType::kMean, true), {2 / first, 3 / first, 1 / first, 2 / second, 1 / second, 4 / second});
}

TEST(Pooler, TruncatesBeforeNormalising) {
  expect_near(Ragged().pool(PoolingType::kCls, true, 2), {0.6, 0.8, 1, 0});
  expect_near(Ragged().pool(PoolingType::kCls, true, 100), {0.6, 0.8, 0, 0.6, 0, 0.8});
}

TEST(Pooler, AZeroVectorStaysZero) {
  Ragged ragged;
  for (size_t i = 15; i < 18; ++i) ragged.hidden[i] = 0;
  const std::vector<float> out = ragged.pool(PoolingType::kLast, true);
  EXPECT_EQ(std::vector<float>(out.begin() + 3, out.end()), std::vector<float>({0, 0, 0}));
}

TEST(Pooler, SumsAreInFloat64) {
  constexpr int64_t kRows = 4097;
  std::vector<float> hidden(kRows, 1.0F);
  hidden[0] = 1e8F;  // in f32 every later 1 would be lost
  ForwardBatch batch;
  batch.sequences = {{.row_begin = 0, .row_count = kRows, .pool = true}};
  float out = 0;
  Pooler(PoolingType::kMean, false).forward(batch, {hidden.data(), kRows, 1}, {&out, 1, 1});
  EXPECT_EQ(out, static_cast<float>((1e8 + 4096) / 4097));
}

TEST(PoolerDeathTest, MeanOfAPartOfARequestIsRefused) {
  Ragged ragged;
  ragged.batch.sequences[0].prefix_len = 1;
  EXPECT_DEATH(ragged.pool(PoolingType::kMean, false), "all rows of a request in one step");
  EXPECT_EQ(ragged.pool(PoolingType::kLast, false).front(), 1.0F);
}

}  // namespace
}  // namespace lamina
