// Cutting a layer over ranks and putting the parts together again gives the tensors of the file, whatever the shape.

#include <gtest/gtest.h>

#include <random>

#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

constexpr const char* kName = "m.fused_proj";

struct Layer {
  std::vector<ParamPart> parts;  // without a group
  ShardDim cols;
  bool bias = false;
};

/// What the facts say a rank of `ranks` holds of a dimension, written out without src/weights/shard.
struct Held {
  int64_t local = 0;  // rows in memory
  int replicas = 1;
};
Held held(const ShardDim& dim, int ranks) {
  const int64_t rows = dim.units * dim.unit;
  switch (dim.rule) {
    case ShardRule::kReplicate:
      return {rows, ranks};
    case ShardRule::kKvHeads:
      if (dim.units < ranks) return {dim.unit, ranks / static_cast<int>(dim.units)};
      return {rows / ranks, 1};
    case ShardRule::kVocab:
      return {((rows + ranks - 1) / ranks + 63) / 64 * 64, 1};
    default:
      return {rows / ranks, 1};
  }
}

class RandomLayer {
 public:
  RandomLayer(uint32_t seed, int ranks) : random_(seed), ranks_(ranks) {}

  Layer make() {
    static constexpr const char* kModules[] = {"a_proj", "b_proj", "c_proj"};
    Layer out;
    const bool by_rows = upto(2) == 1;
    out.cols = by_rows ? ShardDim{ShardRule::kReplicate, upto(70), 1} : even();
    out.bias = upto(2) == 1;
    const int64_t parts = upto(3);
    for (int64_t p = 0; p < parts; ++p) {
      const ShardDim rows = by_rows ? cut_rows(parts == 1) : ShardDim{ShardRule::kReplicate, upto(40), 1};
      out.parts.push_back({parts == 1 ? "" : kModules[p], rows});
    }
    return out;
  }
  /// 1 to `most`.
  int64_t upto(int64_t most) { return 1 + static_cast<int64_t>(random_() % static_cast<uint32_t>(most)); }
  DType dtype() { return std::array{DType::kF32, DType::kF16, DType::kBF16}[static_cast<size_t>(upto(3) - 1)]; }

 private:
  ShardDim even() {
    if (upto(2) == 1) return {ShardRule::kSplit, ranks_ * upto(12), 1};
    return {ShardRule::kHeads, ranks_ * upto(3), upto(8)};
  }
  ShardDim cut_rows(bool alone) {
    switch (upto(alone ? 5 : 4)) {
      case 1:
        return {ShardRule::kReplicate, upto(40), 1};
      case 2: {
        int64_t heads = upto(ranks_);
        while (ranks_ % heads != 0) heads = upto(ranks_);
        return {ShardRule::kKvHeads, heads, upto(8)};
      }
      case 3:
        return {ShardRule::kKvHeads, ranks_ * upto(3), upto(8)};
      case 5:
        return {ShardRule::kVocab, upto(700), 1};
      default:
        return even();
    }
  }

  std::mt19937 random_;
  int64_t ranks_;
};

/// A parameter of one rank as it lies in memory.
struct Shard {
  std::vector<float> values;
  int64_t cols = 0;
};

/// The weight and the bias that rank `rank` loads.
std::pair<Shard, Shard> load_rank(const toy::Files& files, const Layer& layer, const ParallelGroup& group, DType model_dtype) {
  const auto on_group = [&](ShardDim dim) {
    dim.group = &group;
    return dim;
  };
  std::vector<ParamPart> parts = layer.parts;
  for (ParamPart& part : parts) part.rows = on_group(part.rows);
  ParamList params;
  const auto format = make_plain_format({.model_dtype = model_dtype}, kernels::table(Isa::kRef));
  const auto weights = format->create_weights({kName, parts, on_group(layer.cols)}, params).value();
  const VectorStore* bias = nullptr;
  if (layer.bias) {
    Param param{.name = cat(kName, ".bias"), .parts = parts};
    auto store = std::make_unique<VectorStore>((*param.local_shape())[0]);
    bias = store.get();
    param.store = std::move(store);
    params.add(std::move(param));
  }
  const LoadPlan plan = plan_load(files.checkpoint(), params, {}).value();
  ThreadTeam team(1, 1);
  EXPECT_TRUE(execute_load(plan, files.checkpoint(), team, {}).ok());

  const std::vector<int64_t> shape = *params.find(cat(kName, ".weight"))->local_shape();
  std::pair<Shard, Shard> out{{std::vector<float>(static_cast<size_t>(shape[0] * shape[1])), shape[1]}, {{}, 1}};
  const Compute compute{.kernels = &kernels::table(Isa::kRef), .team = nullptr};
  for (int64_t r = 0; r < shape[0]; ++r) weights->row(compute, r, out.first.values.data() + r * shape[1]);
  if (bias != nullptr) out.second.values.assign(bias->data(), bias->data() + shape[0]);
  return out;
}

/// The tensors of the layer's parts on disk, out of what the ranks hold.
std::vector<std::vector<float>> unshard(const Layer& layer, const ShardDim& cols, const std::vector<Shard>& shards) {
  const int ranks = static_cast<int>(shards.size());
  const Held across = held(cols, ranks);
  std::vector<std::vector<float>> out;
  int64_t first_row = 0;
  for (const ParamPart& part : layer.parts) {
    const Held down = held(part.rows, ranks);
    const int64_t rows = part.rows.units * part.rows.unit, width = cols.units * cols.unit;
    std::vector<float> tensor(static_cast<size_t>(rows * width));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(shards[static_cast<size_t>(rank)].cols, across.local);
      const int64_t top = rank / down.replicas * down.local, left = rank / across.replicas * across.local;
      for (int64_t r = 0; r < down.local; ++r) {
        const float* row = shards[static_cast<size_t>(rank)].values.data() + (first_row + r) * across.local;
        for (int64_t c = 0; c < across.local; ++c) {
          if (top + r >= rows) {
            EXPECT_EQ(row[c], 0.0F) << "padding of rank " << rank;
            continue;
          }
          float& whole = tensor[static_cast<size_t>((top + r) * width + left + c)];
          if (rank % down.replicas > 0 && across.replicas == ranks) {
            EXPECT_EQ(row[c], whole) << "replica on rank " << rank;
          }
          whole = row[c];
        }
      }
    }
    out.push_back(std::move(tensor));
    first_row += down.local;
  }
  return out;
}

TEST(Unshard, GivesBackTheTensorsOfAnyLayerOverAnyNumberOfRanks) {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 8);
    RandomLayer random(seed, ranks);
    const Layer layer = random.make();
    const DType file = random.dtype(), model = random.dtype();
    SCOPED_TRACE(cat("seed ", seed, ", ", ranks, " ranks, ", layer.parts.size(), " parts"));

    fixture::Tensors tensors;
    std::vector<std::string> modules;
    std::vector<std::vector<float>> weights, biases;
    for (const ParamPart& part : layer.parts) {
      modules.push_back(part.module.empty() ? "fused_proj" : part.module);
      const std::string name = cat("m.", modules.back());
      const int64_t rows = part.rows.units * part.rows.unit, cols = layer.cols.units * layer.cols.unit;
      std::vector<float>& weight = weights.emplace_back();
      for (int64_t i = 0; i < rows * cols; ++i) weight.push_back(static_cast<float>(random.upto(255) - 128) / 64.0F);
      tensors[name + ".weight"] = fixture::make_tensor(file, {rows, cols}, weight);
      if (!layer.bias) continue;
      std::vector<float>& bias = biases.emplace_back();
      for (int64_t i = 0; i < rows; ++i) bias.push_back(static_cast<float>(random.upto(255) - 128) / 64.0F);
      tensors[name + ".bias"] = fixture::make_tensor(file, {rows}, bias);
    }
    if (layer.parts.size() > 1 && random.upto(2) == 1) {
      toy::fuse(tensors, "m.", modules, "fused_proj", ".weight");
      if (layer.bias) toy::fuse(tensors, "m.", modules, "fused_proj", ".bias");
    }

    const toy::Files files(tensors);
    std::vector<Shard> weight_shards, bias_shards;
    for (int rank = 0; rank < ranks; ++rank) {
      auto [weight, bias] = load_rank(files, layer, {.name = "tp", .size_flag = "--tp-size", .size = ranks, .rank = rank}, model);
      weight_shards.push_back(std::move(weight)), bias_shards.push_back(std::move(bias));
    }
    EXPECT_EQ(unshard(layer, layer.cols, weight_shards), weights);
    if (layer.bias) {
      EXPECT_EQ(unshard(layer, {ShardRule::kReplicate, 1, 1}, bias_shards), biases);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lamina
