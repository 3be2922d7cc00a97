#include "batch/kv_store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/cpu.h"

namespace lamina {
namespace {

const std::vector<KvLayerShape> kLayers = {{2, 16, 16}, {4, 24, 8}};

TEST(KvStore, BytesOfATokenCountKeysAndValuesOfEveryLayer) {
  EXPECT_EQ(KvStore::bytes_per_token(kLayers, DType::kBF16), 2 * (2 * 32 + 4 * 32));
  EXPECT_EQ(KvStore::bytes_per_token(kLayers, DType::kF32), 4 * (2 * 32 + 4 * 32));
}

TEST(KvStore, BytesOfATokenCountTheScalesOfItsHeadsInInt8) {
  EXPECT_EQ(KvStore::bytes_per_token(kLayers, DType::kF8E4M3), 2 * 32 + 4 * 32);
  EXPECT_EQ(KvStore::bytes_per_token(kLayers, DType::kI8), 2 * (32 + 2 * 4) + 4 * (32 + 2 * 4));
}

TEST(KvStore, APageIsCopiedWithTheScalesOfItsHeads) {
  KvStore store = KvStore::create(kLayers, LayerId(0), DType::kI8, 3, 4).value();
  const KvTensor& keys = store.keys(LayerId(1));
  ASSERT_NE(keys.scales, nullptr);
  static_cast<int8_t*>(keys.base)[(4 + 1) * keys.slot_stride + 3] = 7;  // slot 1 of page 1
  keys.scales[(4 + 1) * keys.scale_stride + 2] = 0.5F;
  store.copy(PageId(1), PageId(3), 2);
  EXPECT_EQ(static_cast<int8_t*>(keys.base)[(12 + 1) * keys.slot_stride + 3], 7);
  EXPECT_EQ(keys.scales[(12 + 1) * keys.scale_stride + 2], 0.5F);
}

TEST(KvStore, ScalesOfALayerAreForFp8) {
  KvStore fp8 = KvStore::create(kLayers, LayerId(5), DType::kF8E4M3, 1, 4).value();
  fp8.set_scales(LayerId(6), 0.5F, 0.25F);
  EXPECT_EQ(fp8.keys(LayerId(6)).scale, 0.5F);
  EXPECT_EQ(fp8.values(LayerId(6)).scale, 0.25F);
  EXPECT_EQ(fp8.keys(LayerId(5)).scale, 1.0F);
  KvStore plain = KvStore::create(kLayers, LayerId(5), DType::kBF16, 1, 4).value();
  plain.set_scales(LayerId(6), 0.5F, 0.25F);
  EXPECT_EQ(plain.keys(LayerId(6)).scale, 1.0F);
}

TEST(KvStore, EverySlotOfEveryTensorIsItsOwn) {
  auto store = KvStore::create(kLayers, LayerId(5), DType::kF32, 3, 4);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->dtype(), DType::kF32);
  EXPECT_EQ(store->page_size(), 4);
  EXPECT_EQ(store->keys(LayerId(6)).slot_stride, 4 * 24);
  EXPECT_EQ(store->values(LayerId(6)).slot_stride, 4 * 8);
  constexpr int64_t kSlots = 16;  // three pages and the dummy
  EXPECT_GE(store->reserved_bytes(), static_cast<size_t>(kSlots * KvStore::bytes_per_token(kLayers, DType::kF32)));

  float mark = 0;
  const auto each_element = [&](auto visit) {
    mark = 0;
    for (const LayerId layer : {LayerId(5), LayerId(6)})
      for (const KvTensor* tensor : {&store->keys(layer), &store->values(layer)})
        for (int64_t i = 0; i < kSlots * tensor->slot_stride; ++i) visit(static_cast<float*>(tensor->base)[i], ++mark);
  };
  each_element([](float& element, float value) { element = value; });
  bool distinct = true;
  each_element([&](float& element, float value) { distinct &= element == value; });
  EXPECT_TRUE(distinct) << "two tensors overlap";
}

TEST(KvStore, ReservesWithoutCommitting) {
  const uint64_t before = current_rss();
  auto store = KvStore::create({{8, 128, 128}}, LayerId(0), DType::kBF16, 1 << 17, 16);  // 8 GiB
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ(static_cast<const uint16_t*>(store->keys(LayerId(0)).base)[0], 0);
  static_cast<uint16_t*>(store->values(LayerId(0)).base)[12345] = 1;
  EXPECT_LT(current_rss(), before + (64U << 20));
}

TEST(KvStore, LayerWithoutValuesTakesNoMemoryForThem) {
  auto store = KvStore::create({{1, 64, 0}}, LayerId(0), DType::kBF16, 7, 16);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->values(LayerId(0)).base, nullptr);
  EXPECT_NE(store->keys(LayerId(0)).base, nullptr);
}

TEST(KvStore, ImpossibleSizeIsAnError) {
  auto store = KvStore::create({{1 << 20, 1 << 12, 1 << 12}}, LayerId(0), DType::kF32, 1 << 30, 1 << 20);
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message, "");
}

TEST(KvStoreDeathTest, LayerOfAnotherStageIsOurBug) {
  auto store = KvStore::create(kLayers, LayerId(5), DType::kF32, 3, 4);
  ASSERT_TRUE(store.ok());
  EXPECT_DEATH(store->keys(LayerId(4)), "another pipeline stage");
  EXPECT_DEATH(store->values(LayerId(7)), "another pipeline stage");
}

}  // namespace
}  // namespace lamina
