// dnnl_peak: what oneDNN's matrix products reach on all threads, in operations a second, as one JSON object. A check of the ceilings that
// lamina measures: a peak that a library passes is none.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <oneapi/dnnl/dnnl.hpp>

namespace {

using dnnl::memory;

constexpr memory::dim kRows = 1024, kInner = 4096, kCols = 2048;
constexpr int kPasses = 12;

memory::desc plain(memory::dims sizes, memory::data_type type) { return {std::move(sizes), type, memory::format_tag::ab}; }

/// The best of some products whose weights are packed as the library likes them, in units of 1e9 operations a second. All values are zero,
/// which takes as long as any other.
double best_gflops(const dnnl::engine& engine, memory::data_type inputs, memory::data_type weights, memory::data_type sums) {
  const memory::desc any({kInner, kCols}, weights, memory::format_tag::any);
  const dnnl::matmul::desc described(plain({kRows, kInner}, inputs), any, plain({kRows, kCols}, sums));
  const dnnl::matmul::primitive_desc chosen(described, engine);
  memory x(chosen.src_desc(), engine), w(chosen.weights_desc(), engine), y(chosen.dst_desc(), engine);
  for (const memory* operand : {&x, &w}) {
    std::fill_n(static_cast<unsigned char*>(operand->get_data_handle()), operand->get_desc().get_size(), static_cast<unsigned char>(0));
  }
  const dnnl::matmul product(chosen);
  dnnl::stream stream(engine);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    product.execute(stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    stream.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * kRows * kInner * kCols / seconds / 1e9);
  }
  return best;
}

}  // namespace

int main() {
  using Type = memory::data_type;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const double bf16 = best_gflops(engine, Type::bf16, Type::bf16, Type::f32);
  const double int8 = best_gflops(engine, Type::u8, Type::s8, Type::s32);
  std::printf("{\"bf16_gflops\":%.1f,\"int8_gflops\":%.1f}\n", bf16, int8);
  return 0;
}
