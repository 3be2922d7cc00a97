#include "tensor/buffer.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lamina {
namespace {

TEST(Buffer, ReadsAsZeroAndIsAligned) {
  for (size_t bytes : {size_t{1}, size_t{5000}, (size_t{1} << 20) - 1, size_t{1} << 20, (size_t{5} << 20) + 3}) {
    const Buffer buffer = *Buffer::allocate(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    const size_t alignment = bytes >= size_t{1} << 20 ? size_t{2} << 20 : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0U) << bytes;
    EXPECT_EQ(buffer.data()[0], 0);
    EXPECT_EQ(buffer.data()[bytes - 1], 0);
    buffer.data()[bytes - 1] = 7;
  }
}

TEST(Buffer, EmptyHasNoMemory) {
  const Buffer buffer = *Buffer::allocate(0);
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(Buffer, RefusesMoreThanTheMachineHas) {
  const auto physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t bytes : {physical + 1, SIZE_MAX}) {
    const auto buffer = Buffer::allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_NE(buffer.error().message.find(std::to_string(bytes)), std::string::npos) << buffer.error().message;
  }
}

TEST(Buffer, MovingHandsOverTheMemory) {
  Buffer a = *Buffer::allocate(100);
  a.data()[3] = 42;
  uint8_t* const memory = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(b.data(), memory);
  b = *Buffer::allocate(10);
  EXPECT_EQ(b.size(), 10U);
  EXPECT_EQ(b.as<uint16_t>()[0], 0);
}

TEST(Arena, HandsOutAlignedPiecesAndReusesThemAfterRelease) {
  Arena arena(*Buffer::allocate(4096));
  float* const first = arena.take<float>(3);
  const size_t mark = arena.mark();
  const F32View matrix = arena.matrix(4, 10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix.data) % 64, 0U);
  EXPECT_EQ(matrix.stride, 10);
  EXPECT_GE(matrix.data, first + 3);
  arena.release(mark);
  EXPECT_EQ(arena.take<float>(1), matrix.data);
  arena.reset();
  EXPECT_EQ(arena.take<float>(1), first);
  EXPECT_EQ(arena.peak(), 64U + 192U);
  EXPECT_EQ(arena.capacity(), 4096U);
}

TEST(Arena, ActivationsPadRowsToALine) {
  Arena arena(*Buffer::allocate(4096));
  const MutableActivation wide = arena.activation(DType::kF32, 2, 17);
  EXPECT_EQ(wide.stride, 32);
  const MutableActivation narrow = arena.activation(DType::kBF16, 3, 33);
  EXPECT_EQ(narrow.stride, 64);
  narrow.store(2, 32, 1.0F);
  EXPECT_EQ(bf16_to_f32(narrow.view().bf16().at(2, 32)), 1.0F);
}

TEST(Arena, FillsToTheLastByte) {
  Arena arena(*Buffer::allocate(100));
  arena.take_bytes(100);
  EXPECT_EQ(arena.mark(), 100U);
  arena.take_bytes(0);
}

TEST(ArenaDeathTest, OverflowIsACheck) {
  Arena arena(*Buffer::allocate(100));
  EXPECT_DEATH(arena.take_bytes(101), "more memory than the plan");
  EXPECT_DEATH(arena.take<float>(-1), "more memory than the plan");
  EXPECT_DEATH(arena.activation(DType::kF16, 1, 1), "f32, bf16 or u8");
}

}  // namespace
}  // namespace lamina
