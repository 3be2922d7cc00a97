#include "weights/param.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

Param make(std::string name, std::vector<ParamPart> parts, ShardDim cols) {
  return {.name = std::move(name), .parts = std::move(parts), .cols = cols, .store = std::make_unique<VectorStore>(1)};
}

TEST(Param, ShapesOnDiskGlobalAndLocalAreThreeThings) {
  const ParallelGroup group{.name = "tp", .size_flag = "--tp-size", .size = 8, .rank = 3, .communicator = nullptr};
  const ShardDim q{ShardRule::kHeads, 32, 128, &group};
  const ShardDim kv{ShardRule::kKvHeads, 4, 128, &group};
  const Param qkv = make("model.layers.0.self_attn.qkv_proj.weight", {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}},
                         {ShardRule::kReplicate, 4096, 1, nullptr});
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(qkv.on_disk_shape(-1), (Shape{5120, 4096}));
  EXPECT_EQ(qkv.on_disk_shape(0), (Shape{4096, 4096}));
  EXPECT_EQ(qkv.on_disk_shape(2), (Shape{512, 4096}));
  EXPECT_EQ(qkv.on_disk_elements(), 5120 * 4096);
  EXPECT_EQ(*qkv.local_shape(), (Shape{512 + 128 + 128, 4096}));
  EXPECT_EQ(*qkv.global_shape(), (Shape{4096 + 1024 + 1024, 4096}));
  const Param bias = make("qkv_proj.bias", {{"q_proj", q}, {"k_proj", kv}}, {});
  EXPECT_EQ(bias.on_disk_shape(-1), Shape{4608});
  EXPECT_EQ(*bias.local_shape(), Shape{640});
}

TEST(Param, PartsReplaceTheLastModuleComponent) {
  const ShardDim one{ShardRule::kReplicate, 1, 1, nullptr};
  const Param param = make("model.layers.0.self_attn.qkv_proj.weight", {{"q_proj", one}, {"", one}}, one);
  EXPECT_EQ(param.part_name(0), "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(param.part_name(1), "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(make("ab.weight", {{"a", one}}, one).part_name(0), "a.weight");
}

TEST(Param, AWidthThatDoesNotDivideIsAnErrorOfItsShape) {
  const ParallelGroup group{.name = "tp", .size_flag = "--tp-size", .size = 3, .rank = 0, .communicator = nullptr};
  const Param param = make("w", {{"", {ShardRule::kSplit, 4, 1, &group}}}, {});
  EXPECT_EQ(param.local_shape().error().message, "w: 4 features do not divide over --tp-size 3");
}

TEST(ParamList, FindsByNameInDeclarationOrder) {
  ParamList params;
  const ShardDim one{ShardRule::kReplicate, 1, 1, nullptr};
  params.add(make("b", {{"", one}}, {}));
  const Param& a = params.add(make("a", {{"", one}}, {}));
  EXPECT_EQ(params.find("a"), &a);
  EXPECT_EQ(params.find("c"), nullptr);
  ASSERT_EQ(params.all().size(), 2U);
  EXPECT_EQ(params.all()[0]->name, "b");
}

TEST(ParamList, OneBlockHoldsEveryStoreApart) {
  ParamList params;
  const ShardDim one{ShardRule::kReplicate, 1, 1, nullptr};
  std::vector<VectorStore*> stores;
  for (const int64_t size : {3, 0, 16, 17}) {
    auto store = std::make_unique<VectorStore>(size);
    stores.push_back(store.get());
    params.add({.name = std::to_string(size), .parts = {{"", one}}, .cols = {}, .store = std::move(store)});
  }
  EXPECT_EQ(params.bytes(), 64U + 0 + 64 + 128);
  ASSERT_TRUE(params.reserve().ok());
  EXPECT_EQ(stores[2]->data() - stores[0]->data(), 16);
  EXPECT_EQ(stores[3]->data() - stores[2]->data(), 16);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(stores[0]->data()) % 64, 0U);
}

TEST(ParamListDeathTest, AParameterIsDeclaredOnce) {
  ParamList params;
  const ShardDim one{ShardRule::kReplicate, 1, 1, nullptr};
  params.add(make("a", {{"", one}}, {}));
  EXPECT_DEATH(params.add(make("a", {{"", one}}, {})), "declared once");
  EXPECT_DEATH(params.add(make("b", {}, {})), "has parts");
}

TEST(VectorStore, WidensEveryFloatTypeExactly) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    VectorStore store(6);
    ASSERT_TRUE(store.plan({dtype}, "norm").ok());
    EXPECT_EQ(store.bytes(), 24U);
    EXPECT_EQ(store.storage_dtype(), DType::kF32);
    const Buffer memory = std::move(Buffer::allocate(store.bytes())).value();
    store.bind(memory.data());
    const float values[] = {1.5F, -0.25F, 3.0F};
    uint16_t halves[3];
    for (int i = 0; i < 3; ++i) halves[i] = dtype == DType::kF16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    store.put(2, {dtype == DType::kF32 ? static_cast<const void*>(values) : halves, dtype, 3, 1, 1});
    const std::vector<float> got(store.data(), store.data() + 6);
    EXPECT_EQ(got, (std::vector<float>{0, 0, 1.5F, -0.25F, 3.0F, 0}));
  }
}

TEST(VectorStoreDeathTest, RowsOutsideTheVectorAreOurBug) {
  VectorStore store(2);
  const Buffer memory = std::move(Buffer::allocate(store.bytes())).value();
  store.bind(memory.data());
  const float values[2] = {};
  EXPECT_DEATH(store.put(1, {values, DType::kF32, 2, 1, 1}), "outside the vector");
}

}  // namespace
}  // namespace lamina
