#include "kernels/ceiling.h"

#include <cstring>

#include "tests/kernels/support.h"

namespace lamina::kernels::testing {
namespace {

class Ceiling : public KernelTest {};

TEST_P(Ceiling, ReadLinesReadsEveryLine) {
  Random random(51);
  for (const int64_t lines : {1, 7, 100}) {
    auto buffer = Buffer::allocate(static_cast<size_t>(lines * 64));
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(kernels.read_lines(buffer->data(), lines), 0U);
    for (int64_t line = 0; line < lines; ++line) {
      buffer->data()[line * 64 + random.integer(0, 63)] = 1;
      EXPECT_NE(kernels.read_lines(buffer->data(), lines), 0U) << "line " << line;
      std::memset(buffer->data(), 0, buffer->size());
    }
  }
}

TEST_P(Ceiling, RatesArePositiveAndCountTheWork) {
  ThreadTeam team(2, 2);
  EXPECT_EQ(kernels.dot_burst(20), 2 * kernels.dot_burst(10));
  auto memory = make_read_memory(team, 1000);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->size(), 960U);
  EXPECT_GT(measure_read_bandwidth(kernels, team, *memory), 0.0);
  EXPECT_GT(measure_dot_peak(kernels, team), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Isa, Ceiling, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
