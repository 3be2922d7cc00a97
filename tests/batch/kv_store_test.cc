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
