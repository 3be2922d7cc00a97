#include "parallel/communicator.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace lamina {

RowRange row_share(int64_t rows, int size, int rank) {
  LAMINA_CHECK(rows >= 0 && size >= 1 && rank >= 0 && rank < size, "no such share of rows");
  const int64_t each = rows / size, longer = rows % size;
  return {.begin = each * rank + std::min<int64_t>(rank, longer), .count = each + (rank < longer ? 1 : 0)};
}

void SelfCommunicator::all_gather_columns(ConstF32View local, F32View out) {
  LAMINA_CHECK(local.rows == out.rows && local.cols == out.cols, "gathered views differ in shape");
  for (int64_t r = 0; local.cols > 0 && r < local.rows; ++r)
    std::memcpy(out.row(r), local.row(r), static_cast<size_t>(local.cols) * sizeof(float));
}

void SelfCommunicator::gather_columns(ConstF32View local, F32View out, int) { all_gather_columns(local, out); }

void SelfCommunicator::send(std::span<const std::byte>, int) { LAMINA_CHECK(false, "a group of one has nobody to send to"); }
void SelfCommunicator::receive(std::span<std::byte>, int) { LAMINA_CHECK(false, "a group of one has nobody to receive from"); }

std::span<const void* const> SelfCommunicator::publish(const void* mine) {
  published_ = mine;
  return {&published_, 1};
}

}  // namespace lamina
