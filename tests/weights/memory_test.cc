// The memory rule: loading takes at most 1.2 times the packed weights.

#include <gtest/gtest.h>

#include "base/cpu.h"
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

TEST(LoaderMemoryFull, PeakIsAtMostOnePointTwoTimesThePackedWeights) {
  const kernels::Kernels& kernels = kernels::table(choose_isa(decode_features(read_cpuid()), "").value());
  ParamList params;
  const auto format = make_plain_format({.model_dtype = DType::kBF16}, kernels);
  for (const Matrix& m : matrices()) declare(m, *format, params);
  const fixture::TempFolder folder;
  write_file(folder, params);
  const Checkpoint checkpoint = std::move(Checkpoint::open(folder.path())).value();
  const LoadPlan plan = std::move(plan_load(checkpoint, params, {})).value();
  ASSERT_GT(plan.bytes, size_t{270} << 20);

  const int threads = std::min(4, usable_cpus());
  ThreadTeam team(threads, threads);
  const uint64_t before = current_rss();
  ASSERT_TRUE(execute_load(plan, checkpoint, team, {}).ok());
  const uint64_t small = uint64_t{16} << 20;
  RecordProperty("packed_mb", static_cast<int>(plan.bytes >> 20));
  RecordProperty("peak_mb", static_cast<int>((peak_rss() - before) >> 20));
  EXPECT_LE(peak_rss(), before + plan.bytes / 5 * 6 + small);
  EXPECT_LE(current_rss(), before + plan.bytes / 10 * 11 + small) << "source pages were not dropped";
}

}  // namespace
}  // namespace lamina
