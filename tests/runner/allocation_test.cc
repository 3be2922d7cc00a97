// A step allocates nothing after warm-up.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/runner/rig.h"
#include "tests/support/quant_writer.h"

namespace {
std::atomic<int64_t> allocations{0};
}

void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t size, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto a = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(a, (size + a - 1) / a * a)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace lamina {
namespace {

/// Allocations, by all ranks, of 20 decode steps of `batch` requests after a few warm ones. Between two stages as many messages may be
/// under way as plans; the buffers for them are made when a stage falls behind, and that may be after the warm steps: they are counted anew
/// then.
int64_t decode_allocations(const std::string& model, const Topology& topology, int batch, double temperature) {
  testing::RigOptions options;
  options.model = model;
  options.topology = topology;
  options.threads = topology.world_size() == 1 ? 2 : 1;
  options.max_total_tokens = 4096;
  testing::Rig rig(options);
  for (int b = 1; b <= batch; ++b) {
    SchedulerRequest request{.id = RequestId(b), .prompt = {3, 4, 5, static_cast<TokenId>(5 + b)}, .sampling = {}};
    request.sampling.max_new_tokens = 100;
    request.sampling.ignore_eos = true;
    request.sampling.temperature = temperature;
    request.sampling.seed = 1;
    EXPECT_TRUE(rig.scheduler().submit(std::move(request)).ok());
    rig.answer(RequestId(b)).tokens.reserve(200);
  }
  const auto of_20_steps = [&] {
    const int64_t before = allocations.load();
    for (int i = 0; i < 20; ++i) rig.step();
    return allocations.load() - before;
  };
  of_20_steps();
  int64_t count = of_20_steps();
  for (int late = 1; late < topology.pp_size && count > 0; ++late) count = of_20_steps();
  return count;
}

void expect_none(const Topology& topology, const std::string& model = "llama-gqa") {
  for (const int batch : {1, 16}) {
    for (const double temperature : {0.0, 0.8})
      EXPECT_EQ(decode_allocations(model, topology, batch, temperature), 0) << batch << ' ' << temperature;
  }
}

TEST(StepAllocation, DecodeStepsAllocateNothingAfterWarmUp) { expect_none({}); }
TEST(StepAllocation, DecodeStepsWhoseInputsAreQuantisedWhereTheyAreMadeAllocateNothing) {
  for (const auto kind : {fixture::QuantRecipe::Kind::kFp8Static, fixture::QuantRecipe::Kind::kFp8}) {
    const fixture::TempFolder folder;
    fixture::quant_toy({.kind = kind}).model.write(folder);
    for (const int tp : {1, 2}) expect_none({.tp_size = tp}, folder.path());
  }
}
TEST(StepAllocation, DecodeStepsOfTensorParallelRanksAllocateNothing) { expect_none({.tp_size = 2}); }
TEST(StepAllocation, DecodeStepsOfPipelineStagesAllocateNothing) { expect_none({.pp_size = 2}); }
TEST(StepAllocation, DecodeStepsOfAttentionDataParallelRanksAllocateNothing) { expect_none({.tp_size = 2, .dp_attention = 2}); }

}  // namespace
}  // namespace lamina
