#pragma once
// A toy decoder of one layer as a parameter list, and its checkpoint.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "tests/support/safetensors_writer.h"
#include "weights/format.h"
#include "weights/loader.h"

namespace lamina::toy {

inline constexpr int64_t kVocab = 259, kHidden = 24, kHeads = 8, kKvHeads = 2, kHeadDim = 4, kInner = 40;
inline const std::string kQkv = "model.layers.0.self_attn.qkv_proj";
inline const std::string kGateUp = "model.layers.0.mlp.gate_up_proj";
inline const std::string kDown = "model.layers.0.mlp.down_proj";
inline const std::string kOut = "model.layers.0.self_attn.o_proj";
inline const std::string kEmbed = "model.embed_tokens";

/// Element i of a tensor: a multiple of 1/64 that f32, f16 and bf16 all hold exactly.
inline float value(std::string_view tensor, int64_t i) {
  const size_t hash = std::hash<std::string>()(cat(tensor, "/", i));
  return (static_cast<float>(hash % 255) - 127.0F) / 64.0F;
}

inline fixture::Tensor tensor(std::string_view name, std::vector<int64_t> shape, DType dtype = DType::kF32) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value(name, i));
  return fixture::make_tensor(dtype, std::move(shape), values);
}

/// The checkpoint in Hugging Face's split form.
inline fixture::Tensors tensors(DType dtype = DType::kF32) {
  const std::map<std::string, std::vector<int64_t>> shapes = {{"model.embed_tokens.weight", {kVocab, kHidden}},
                                                              {"model.layers.0.self_attn.q_proj.weight", {kHeads * kHeadDim, kHidden}},
                                                              {"model.layers.0.self_attn.k_proj.weight", {kKvHeads * kHeadDim, kHidden}},
                                                              {"model.layers.0.self_attn.v_proj.weight", {kKvHeads * kHeadDim, kHidden}},
                                                              {"model.layers.0.self_attn.q_proj.bias", {kHeads * kHeadDim}},
                                                              {"model.layers.0.self_attn.k_proj.bias", {kKvHeads * kHeadDim}},
                                                              {"model.layers.0.self_attn.v_proj.bias", {kKvHeads * kHeadDim}},
                                                              {"model.layers.0.self_attn.o_proj.weight", {kHidden, kHeads * kHeadDim}},
                                                              {"model.layers.0.mlp.gate_proj.weight", {kInner, kHidden}},
                                                              {"model.layers.0.mlp.up_proj.weight", {kInner, kHidden}},
                                                              {"model.layers.0.mlp.down_proj.weight", {kHidden, kInner}},
                                                              {"model.norm.weight", {kHidden}}};
  fixture::Tensors out;
  for (const auto& [name, shape] : shapes) out[name] = tensor(name, shape, dtype);
  return out;
}

/// Joins split tensors along dim 0 into `fused`, as Phi-3 stores them.
inline void fuse(fixture::Tensors& tensors, const std::string& prefix, const std::vector<std::string>& parts, const std::string& fused,
                 const std::string& leaf) {
  fixture::Tensor out;
  for (const std::string& part : parts) {
    const auto found = tensors.find(cat(prefix, part, leaf));
    ASSERT_NE(found, tensors.end()) << part;
    if (out.shape.empty()) out = {found->second.dtype, found->second.shape, ""}, out.shape[0] = 0;
    out.shape[0] += found->second.shape[0];
    out.bytes += found->second.bytes;
    tensors.erase(found);
  }
  tensors[cat(prefix, fused, leaf)] = out;
}

inline void fuse_all(fixture::Tensors& tensors) {
  fuse(tensors, "model.layers.0.self_attn.", {"q_proj", "k_proj", "v_proj"}, "qkv_proj", ".weight");
  fuse(tensors, "model.layers.0.self_attn.", {"q_proj", "k_proj", "v_proj"}, "qkv_proj", ".bias");
  fuse(tensors, "model.layers.0.mlp.", {"gate_proj", "up_proj"}, "gate_up_proj", ".weight");
}

/// The parameters of one rank, as layers would declare them.
class Model {
 public:
  explicit Model(int ranks = 1, int rank = 0, DType dtype = DType::kF32)
      : Model(ranks, rank, make_plain_format({.model_dtype = dtype}, kernels::table(Isa::kRef))) {}
  Model(int ranks, int rank, std::unique_ptr<WeightFormat> format)
      : group_{.name = "tp", .size_flag = "--tp-size", .size = ranks, .rank = rank, .communicator = nullptr}, format_(std::move(format)) {
    const ShardDim q{ShardRule::kHeads, kHeads, kHeadDim, &group_};
    const ShardDim kv{ShardRule::kKvHeads, kKvHeads, kHeadDim, &group_};
    const ShardDim inner{ShardRule::kSplit, kInner, 1, &group_};
    const ShardDim hidden{ShardRule::kReplicate, kHidden, 1, nullptr};
    linear(kEmbed, {{"", {ShardRule::kVocab, kVocab, 1, &group_}}}, hidden);
    linear(kQkv, {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}}, hidden);
    vector(kQkv + ".bias", {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}});
    linear(kOut, {{"", hidden}}, q);
    linear(kGateUp, {{"gate_proj", inner}, {"up_proj", inner}}, hidden);
    linear(kDown, {{"", hidden}}, inner);
    vector("model.norm.weight", {{"", hidden}});
  }
  Model(const Model&) = delete;

  ParamList& params() { return params_; }
  const ParamList& params() const { return params_; }
  const LinearWeights& linear(const std::string& name) const { return *linears_.at(name); }
  const VectorStore& vector(const std::string& name) const { return static_cast<const VectorStore&>(*params_.find(name)->store); }
  std::vector<int64_t> local_shape(const std::string& name) const { return *params_.find(name)->local_shape(); }

  /// The local matrix, row by row.
  std::vector<float> matrix(const std::string& name) const {
    const std::vector<int64_t> shape = local_shape(name + ".weight");
    std::vector<float> out(static_cast<size_t>(shape[0] * shape[1]));
    const Compute compute{.kernels = &kernels::table(Isa::kRef), .team = nullptr};
    for (int64_t r = 0; r < shape[0]; ++r) linear(name).row(compute, r, out.data() + r * shape[1]);
    return out;
  }
  std::vector<float> values(const std::string& name) const {
    const float* data = vector(name).data();
    return {data, data + local_shape(name)[0]};
  }

 private:
  void linear(const std::string& name, std::vector<ParamPart> parts, const ShardDim& cols) {
    auto weights = format_->create_weights({name, std::move(parts), cols}, params_);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    linears_[name] = std::move(weights).value();
  }
  void vector(const std::string& name, std::vector<ParamPart> parts) {
    Param param{.name = name, .parts = std::move(parts), .cols = {}, .store = nullptr};
    param.store = std::make_unique<VectorStore>((*param.local_shape())[0]);
    params_.add(std::move(param));
  }

  ParallelGroup group_;
  std::unique_ptr<WeightFormat> format_;
  ParamList params_;
  std::map<std::string, std::unique_ptr<LinearWeights>> linears_;
};

/// Writes `tensors` and opens the folder.
class Files {
 public:
  explicit Files(const fixture::Tensors& tensors, int shards = 1) {
    fixture::write_checkpoint(folder_, tensors, shards);
    Result<Checkpoint> opened = Checkpoint::open(folder_.path());
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    checkpoint_ = std::make_unique<Checkpoint>(std::move(opened).value());
  }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const fixture::TempFolder& folder() const { return folder_; }

 private:
  fixture::TempFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

/// Plans and loads; the message of the error, or "".
inline std::string load(const Files& files, Model& model, const NameMap& names = {}, int threads = 1) {
  const Result<LoadPlan> plan = plan_load(files.checkpoint(), model.params(), names);
  if (!plan.ok()) return plan.error().message;
  ThreadTeam team(threads, threads);
  const Status done = execute_load(*plan, files.checkpoint(), team, {});
  return done.ok() ? "" : done.error().message;
}

}  // namespace lamina::toy
