// The memory rule: loading takes at most 1.2 times the packed weights, quantising on the way as well.

#include <gtest/gtest.h>

#include "base/cpu.h"
#include "checkpoint/quant_presets.h"
#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

struct Matrix {
  std::string name;
  std::vector<std::string> parts;  // "" for a plain one
  int64_t rows, cols;              // of each part
};

std::vector<Matrix> matrices() {
  std::vector<Matrix> out = {{"model.embed_tokens", {""}, 32'000, 1024}};
  for (int layer = 0; layer < 10; ++layer) {
    const std::string prefix = cat("model.layers.", layer, ".");
    out.push_back({prefix + "self_attn.qkv_proj", {"q_proj", "k_proj", "v_proj"}, 512, 1024});
    out.push_back({prefix + "self_attn.o_proj", {""}, 1024, 1024});
    out.push_back({prefix + "mlp.gate_up_proj", {"gate_proj", "up_proj"}, 2816, 1024});
    out.push_back({prefix + "mlp.down_proj", {""}, 1024, 2816});
  }
  return out;
}

void declare(const Matrix& m, const WeightFormat& format, ParamList& params) {
  std::vector<ParamPart> parts;
  for (const std::string& part : m.parts) parts.push_back({part, {ShardRule::kReplicate, m.rows, 1, nullptr}});
  ASSERT_TRUE(format.create_weights({m.name, parts, {ShardRule::kReplicate, m.cols, 1, nullptr}}, params).ok());
}

/// Writes bf16 tensors in blocks, so that the test itself stays small.
void write_file(const fixture::TempFolder& folder, const ParamList& params) {
  Json header = Json::object();
  size_t size = 0;
  for (const auto& param : params.all()) {
    for (int part = 0; part < static_cast<int>(param->parts.size()); ++part) {
      const std::vector<int64_t> shape = param->on_disk_shape(part);
      const size_t end = size + static_cast<size_t>(shape[0] * shape[1] * 2);
      Json entry = Json::object();
      entry.set("dtype", "BF16");
      entry.set("shape", Json(Json::Array{Json(shape[0]), Json(shape[1])}));
      entry.set("data_offsets", Json(Json::Array{Json(size), Json(end)}));
      header.set(param->part_name(part), std::move(entry));
      size = end;
    }
  }
  std::ofstream out(folder.file("model.safetensors"), std::ios::binary);
  out << fixture::raw_safetensors(header.dump(), "");
  std::string block(1 << 16, '\0');
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 31 % 61);
  for (size_t left = size; left > 0; left -= std::min(left, block.size())) {
    out.write(block.data(), static_cast<std::streamsize>(std::min(left, block.size())));
  }
}

/// The peak from now on; Linux forgets the earlier one.
uint64_t restart_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
  return peak_rss();
}

class LoaderMemoryFull : public testing::TestWithParam<const char*> {};

TEST_P(LoaderMemoryFull, PeakIsAtMostOnePointTwoTimesThePackedWeights) {
  const kernels::Kernels& kernels = kernels::table(choose_isa(decode_features(read_cpuid()), "").value());
  const std::string scheme = GetParam();
  std::optional<QuantConfig> config;
  if (!scheme.empty()) config = quantising_config({.scheme = scheme}).value();
  ParamList params;
  const auto format = config ? make_quantised_format(*config, {.quantise = true}, kernels) : make_plain_format({}, kernels);
  for (const Matrix& m : matrices()) declare(m, *format, params);
  const fixture::TempFolder folder;
  write_file(folder, params);
  const Checkpoint checkpoint = std::move(Checkpoint::open(folder.path())).value();
  const LoadPlan plan = std::move(plan_load(checkpoint, params, {})).value();
  ASSERT_GT(plan.bytes, size_t{scheme.empty() ? 270U : 75U} << 20);

  const int threads = std::min(4, usable_cpus());
  ThreadTeam team(threads, threads);
  const uint64_t before = restart_peak();
  const Status loaded = execute_load(plan, checkpoint, team, {});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const uint64_t small = uint64_t{16} << 20;
  RecordProperty("packed_mb", static_cast<int>(plan.bytes >> 20));
  RecordProperty("peak_mb", static_cast<int>((peak_rss() - before) >> 20));
  EXPECT_LE(peak_rss(), before + plan.bytes / 5 * 6 + small);
  EXPECT_LE(current_rss(), before + plan.bytes / 10 * 11 + small) << "source pages were not dropped";
}

INSTANTIATE_TEST_SUITE_P(Formats, LoaderMemoryFull, testing::Values("", "int8", "int4"),
                         [](const auto& given) { return std::string(given.param).empty() ? "bf16" : given.param; });

}  // namespace
}  // namespace lamina
