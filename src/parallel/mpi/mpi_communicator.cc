#include "parallel/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "parallel/ragged.h"

namespace lamina {
namespace {

std::span<const std::byte> bytes_of(const float* values, int64_t count) {
  return std::as_bytes(std::span(values, static_cast<size_t>(count)));
}
std::span<std::byte> writable_bytes_of(float* values, int64_t count) {
  return std::as_writable_bytes(std::span(values, static_cast<size_t>(count)));
}

/// Rows of any dtype, as bytes.
struct ByteRows {
  std::byte* data = nullptr;
  int64_t rows = 0, width = 0, stride = 0;
  bool contiguous() const { return stride == width || rows <= 1; }
  std::span<std::byte> whole() const { return {data, static_cast<size_t>(rows * width)}; }
  ByteRows slice(RowRange run) const { return {data + run.begin * stride, run.count, width, stride}; }
};

ByteRows byte_rows(const MutableActivation& view) {
  const int64_t element = dtype_bytes(view.dtype);
  return {static_cast<std::byte*>(view.data), view.rows, view.cols * element, view.stride * element};
}
ByteRows byte_rows(ConstF32View view) {
  constexpr int64_t kElement = sizeof(float);
  return {reinterpret_cast<std::byte*>(const_cast<float*>(view.data)), view.rows, view.cols * kElement, view.stride * kElement};
}

void copy_rows(const ByteRows& from, const ByteRows& to) {
  if (from.width == 0) return;
  for (int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(to.data + r * to.stride, from.data + r * from.stride, static_cast<size_t>(from.width));
  }
}

/// The same rows side by side in `buffer`.
ByteRows pack_space(const ByteRows& rows, std::vector<std::byte>& buffer) {
  const auto bytes = static_cast<size_t>(rows.rows * rows.width);
  if (buffer.size() < bytes) buffer.resize(bytes);
  return {buffer.data(), rows.rows, rows.width, rows.width};
}

}  // namespace

MpiCommunicator::MpiCommunicator(Wire& wire, std::string_view name, std::vector<int> members, int index, int tag)
    : wire_(wire), name_(name), members_(std::move(members)), rank_(index), tag_(tag), pointers_(members_.size()) {
  LAMINA_CHECK(index >= 0 && index < size(), "a rank outside its group");
}

void MpiCommunicator::post_receive(std::span<std::byte> bytes, int peer) {
  wire_.post_receive(bytes, members_[static_cast<size_t>(peer)], tag_);
  received_ += bytes.size();
}

void MpiCommunicator::reserve_parts(int64_t count) {
  const auto floats = static_cast<size_t>(count * size());
  if (scratch_.size() < floats) scratch_.resize(floats);
}

std::span<const float* const> MpiCommunicator::parts(const float* own, int64_t count) {
  for (int r = 0; r < size(); ++r) pointers_[static_cast<size_t>(r)] = r == rank_ ? own : received_part(r, count);
  return pointers_;
}

void MpiCommunicator::all_reduce(F32View values, Reduction reduction, std::string_view operation) {
  const int64_t count = values.rows * values.cols;
  if (wire_.faulted() || count == 0) return;
  const ByteRows rows = byte_rows(values);
  const ByteRows flat = rows.contiguous() ? rows : pack_space(rows, packed_);
  if (flat.data != rows.data) copy_rows(rows, flat);
  auto* data = reinterpret_cast<float*>(flat.data);
  if (size() == 2)
    exchange_all(data, count, reduction, operation);
  else
    exchange_shares(data, count, reduction, operation);
  if (flat.data != rows.data) copy_rows(flat, rows);
}

/// Two ranks: to send everything costs the bytes of the two steps below, and one step less.
void MpiCommunicator::exchange_all(float* values, int64_t count, Reduction reduction, std::string_view operation) {
  reserve_parts(count);
  const int peer = 1 - rank_;
  post_receive(writable_bytes_of(received_part(peer, count), count), peer);
  post_send(bytes_of(values, count), peer);
  if (!complete(operation)) return;
  combine_in_rank_order(reduction, parts(values, count), count, [&](int64_t at, const float* total, int64_t n) {
    std::memcpy(values + at, total, static_cast<size_t>(n) * sizeof(float));
  });
}

/// Each rank gets its share of the elements from all, adds, and sends the total to all.
void MpiCommunicator::exchange_shares(float* values, int64_t count, Reduction reduction, std::string_view operation) {
  const RowRange own = row_share(count, size(), rank_);
  reserve_parts(own.count);
  for_each_peer([&](int peer) {
    const RowRange theirs = row_share(count, size(), peer);
    post_receive(writable_bytes_of(received_part(peer, own.count), own.count), peer);
    post_send(bytes_of(values + theirs.begin, theirs.count), peer);
  });
  if (!complete(operation)) return;
  combine_in_rank_order(reduction, parts(values + own.begin, own.count), own.count, [&](int64_t at, const float* total, int64_t n) {
    std::memcpy(values + own.begin + at, total, static_cast<size_t>(n) * sizeof(float));
  });
  for_each_peer([&](int peer) {
    const RowRange theirs = row_share(count, size(), peer);
    post_receive(writable_bytes_of(values + theirs.begin, theirs.count), peer);
    post_send(bytes_of(values + own.begin, own.count), peer);
  });
  complete(operation);
}

void MpiCommunicator::reduce_scatter_rows(F32View values, std::span<const int64_t> counts) {
  check_counts(counts, size(), values.rows);
  if (wire_.faulted()) return;
  const ByteRows rows = byte_rows(values);
  const ByteRows flat = rows.contiguous() ? rows : pack_space(rows, packed_);
  if (flat.data != rows.data) copy_rows(rows, flat);
  const RowRange own = run_of(counts, rank_);
  const int64_t count = own.count * values.cols;
  reserve_parts(count);
  for_each_peer([&](int peer) {
    post_receive(writable_bytes_of(received_part(peer, count), count), peer);
    post_send(flat.slice(run_of(counts, peer)).whole(), peer);
  });
  if (!complete("reduce_scatter_rows")) return;
  auto* mine = reinterpret_cast<float*>(flat.slice(own).data);
  combine_in_rank_order(Reduction::kSum, parts(mine, count), count, [&](int64_t at, const float* total, int64_t n) {
    std::memcpy(mine + at, total, static_cast<size_t>(n) * sizeof(float));
  });
  if (flat.data != rows.data) copy_rows(flat.slice(own), rows.slice(own));
}

void MpiCommunicator::all_gather_rows(const MutableActivation& all, std::span<const int64_t> counts) {
  check_counts(counts, size(), all.rows);
  if (wire_.faulted()) return;
  const ByteRows rows = byte_rows(all);
  const ByteRows flat = rows.contiguous() ? rows : pack_space(rows, packed_);
  const RowRange own = run_of(counts, rank_);
  if (flat.data != rows.data) copy_rows(rows.slice(own), flat.slice(own));
  for_each_peer([&](int peer) {
    post_receive(flat.slice(run_of(counts, peer)).whole(), peer);
    post_send(flat.slice(own).whole(), peer);
  });
  if (!complete("all_gather_rows") || flat.data == rows.data) return;
  for_each_peer([&](int peer) { copy_rows(flat.slice(run_of(counts, peer)), rows.slice(run_of(counts, peer))); });
}

void MpiCommunicator::all_gather_columns(ConstF32View local, F32View out) { gather(local, out, -1, "all_gather_columns"); }
void MpiCommunicator::gather_columns(ConstF32View local, F32View out, int root) { gather(local, out, root, "gather_columns"); }

/// To all ranks when `only_root` is -1.
void MpiCommunicator::gather(ConstF32View local, F32View out, int only_root, std::string_view operation) {
  const bool wants = only_root < 0 || only_root == rank_;
  LAMINA_CHECK(!wants || (out.cols == local.cols * size() && out.rows == local.rows), "not the ranks' columns side by side: shape of out");
  const int64_t count = local.rows * local.cols;
  if (wire_.faulted() || count == 0) return;
  const ByteRows rows = byte_rows(local);
  const ByteRows flat = rows.contiguous() ? rows : pack_space(rows, packed_);
  if (flat.data != rows.data) copy_rows(rows, flat);
  const bool in_place = local.rows == 1;
  if (wants && !in_place) reserve_parts(count);
  const auto place = [&](int peer) { return in_place ? out.data + peer * local.cols : received_part(peer, count); };
  for_each_peer([&](int peer) {
    if (wants) post_receive(writable_bytes_of(place(peer), count), peer);
    if (only_root < 0 || peer == only_root) post_send(flat.whole(), peer);
  });
  if (!complete(operation) || !wants) return;
  copy_rows(rows, byte_rows(out.columns(rank_ * local.cols, local.cols)));
  if (in_place) return;
  for_each_peer([&](int peer) {
    copy_rows(byte_rows(ConstF32View(received_part(peer, count), local.rows, local.cols)),
              byte_rows(out.columns(peer * local.cols, local.cols)));
  });
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  if (wire_.faulted()) return;
  if (rank_ == root)
    for_each_peer([&](int peer) { post_send(bytes, peer); });
  else
    post_receive(bytes, root);
  complete("broadcast");
}

void MpiCommunicator::barrier() {
  if (wire_.faulted()) return;
  for_each_peer([&](int peer) { wire_.post_handshake(members_[static_cast<size_t>(peer)], tag_); });
  complete("barrier");
}

void MpiCommunicator::send(std::span<const std::byte> bytes, int to) {
  LAMINA_CHECK(to >= 0 && to < size() && to != rank_, "no such peer");
  for (size_t at = 0; at < bytes.size() && !wire_.faulted(); at += Wire::kLongestPiece) {
    const std::span<const std::byte> piece = bytes.subspan(at, std::min(Wire::kLongestPiece, bytes.size() - at));
    wire_.send_copy(piece, {&members_[static_cast<size_t>(to)], 1}, tag_ + 1);
  }
}

void MpiCommunicator::receive(std::span<std::byte> bytes, int from) {
  LAMINA_CHECK(from >= 0 && from < size() && from != rank_, "no such peer");
  if (wire_.faulted()) return;
  wire_.post_receive(bytes, members_[static_cast<size_t>(from)], tag_ + 1);
  received_ += bytes.size();
  complete("send");
}

}  // namespace lamina
