#include "tensor/view.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

TEST(View, SlicesShareMemoryAndStride) {
  float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const F32View all(data, 3, 4);
  const F32View part = all.slice(1, 2).columns(1, 2);  // rows 1-2, columns 1-2
  EXPECT_EQ(part.at(0, 0), 5);
  EXPECT_EQ(part.row(1)[1], 10);
  part.at(1, 0) = -1;
  EXPECT_EQ(data[9], -1);
}

TEST(View, ScalesOfCodesFollowTheirRows) {
  uint8_t codes[] = {1, 2, 3, 4, 5, 6};
  float scales[] = {0.5F, 0.25F, 0.125F};
  const MutableActivation rows{DType::kU8, codes, 3, 2, 2, F32View(scales, 3, 1)};
  const Activation last = rows.slice(1, 2).view().slice(1, 1);
  ASSERT_TRUE(last.is_coded());
  EXPECT_EQ(static_cast<const uint8_t*>(last.data)[0], 5);
  EXPECT_EQ(last.scales.at(0, 0), 0.125F);
  EXPECT_EQ(rows.view().columns(1, 1).slice(2, 1).scales.at(0, 0), 0.125F);
  const MutableActivation one_scale{DType::kU8, codes, 3, 2, 2, F32View(scales, 3, 1, 0)};
  EXPECT_EQ(one_scale.slice(2, 1).scales.at(0, 0), 0.5F);
  EXPECT_FALSE(Activation(ConstF32View(scales, 3, 1)).slice(1, 1).is_coded());
}

TEST(View, ActivationsSliceByRowsOfTheirDtype) {
  uint16_t data[6] = {0, 1, 2, 3, 4, 5};
  const Activation rows(MatrixView<const uint16_t>(data, 3, 2));
  EXPECT_EQ(rows.slice(2, 1).bf16().at(0, 1), 5);
}

TEST(View, StoreRoundsWhenTheDtypeIsBf16) {
  float wide = 0;
  uint16_t narrow = 0;
  MutableActivation{DType::kF32, &wide, 1, 1, 1}.store(0, 0, 1.001F);
  MutableActivation{DType::kBF16, &narrow, 1, 1, 1}.store(0, 0, 1.001F);
  EXPECT_EQ(wide, 1.001F);
  EXPECT_EQ(bf16_to_f32(narrow), 1.0F);
}

TEST(ViewDeathTest, OutsideIsACheck) {
  float data[4] = {};
  const F32View all(data, 2, 2);
  EXPECT_DEATH(static_cast<void>(all.columns(1, 2)), "columns outside");
  EXPECT_DEATH(static_cast<void>(all.slice(-1, 1)), "rows outside");
  EXPECT_DEATH(static_cast<void>(Activation(ConstF32View(all)).bf16()), "not bf16");
}

}  // namespace
}  // namespace lamina
