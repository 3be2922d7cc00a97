#include "kernels/gated.h"

#include <algorithm>

namespace lamina::kernels {
namespace {

constexpr int64_t kTileRows = 512;
constexpr int64_t kTileFloats = 2 * 2 * kPanelRows * kTileRows;  // two panels of each half: 256 KiB, beside the weights of two panels

void multiply_panels(const Kernels& kernels, const Activation& x, const PackedMatrix& w, const float* bias, F32View out) {
  kernels.matmul_panels(x, w, bias, out, 0, w.panels());
}
void multiply_panels(const Kernels& kernels, const Activation& x, const CodedMatrix& w, const float* bias, F32View out) {
  kernels.quantised->matmul_panels(x, w, bias, out, 0, w.panels());
}

template <class Matrix>
void run_gated(const Kernels& kernels, ThreadTeam& team, const Activation& x, const Matrix& gate_up, const float* bias,
               const GatedOutput& out) {
  LAMINA_CHECK(x.cols == gate_up.k && halves_are_panels(gate_up.n), "matmul_gated: the shapes of x and of the weights");
  LAMINA_CHECK(out.rows.rows == x.rows && 2 * out.rows.cols == gate_up.n, "matmul_gated: output shape");
  if (x.rows == 0) return;
  const int64_t inner = gate_up.panels() / 2;
  const int64_t most = kTileFloats / (2 * kPanelRows * std::min(x.rows, kTileRows));  // panels of a tile's half
  const auto half = [&](const Activation& rows, int64_t panel, int64_t count, F32View to) {
    multiply_panels(kernels, rows, gate_up.part(panel, count), bias == nullptr ? nullptr : bias + panel * kPanelRows, to);
  };
  team.parallel_for(inner, 2, [&](int64_t begin, int64_t end, int thread) {
    float* const memory = static_cast<float*>(out.scratch) + thread * kTileFloats;
    for (int64_t panel = begin; panel < end; panel += most) {
      const int64_t count = std::min(most, end - panel), width = count * kPanelRows;
      for (int64_t row = 0; row < x.rows; row += kTileRows) {
        const Activation rows = x.slice(row, std::min(kTileRows, x.rows - row));
        const F32View tile(memory, rows.rows, 2 * width);
        half(rows, panel, count, tile.columns(0, width));
        half(rows, inner + panel, count, tile.columns(width, width));
        kernels.silu_and_mul(tile, out.rows.slice(row, rows.rows).columns(panel * kPanelRows, width));
      }
    }
  });
}

}  // namespace

size_t gated_scratch_bytes(int threads) { return static_cast<size_t>(threads * kTileFloats) * sizeof(float); }

void matmul_gated(const Kernels& kernels, ThreadTeam& team, const Activation& x, const PackedMatrix& gate_up, const float* bias,
                  const GatedOutput& out) {
  LAMINA_CHECK(x.dtype == gate_up.compute, "matmul_gated: x must be in the dtype the weights are multiplied in");
  run_gated(kernels, team, x, gate_up, bias, out);
}

void matmul_gated(const Kernels& kernels, ThreadTeam& team, const Activation& x, const CodedMatrix& gate_up, const float* bias,
                  const GatedOutput& out) {
  check_input(x, gate_up);
  run_gated(kernels, team, x, gate_up, bias, out);
}

}  // namespace lamina::kernels
