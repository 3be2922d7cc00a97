#pragma once
// Rows of the table of damaged and odd quantised checkpoints: a made-up model, and what is changed about it.

#include <functional>
#include <string>
#include <vector>

#include "tests/support/quant_writer.h"

namespace lamina::e2e {

using Change = std::function<void(fixture::QuantToy&)>;

struct QuantRow {
  std::string name;
  fixture::QuantRecipe recipe;
  std::vector<std::string> wanted;  // pieces of the refusal; none: served
  Change change = [](fixture::QuantToy&) {};
  fixture::ToyShape shape = {};
  int tp = 1;
  int pp = 1;
};
inline void PrintTo(const QuantRow& row, std::ostream* out) { *out << row.name; }

Change all(std::vector<Change> changes);

// Tensors of the checkpoint.
Change drop(std::string tensor);
Change drop_leaf(std::string leaf);  // of every module
Change add(std::string name, fixture::Tensor tensor);
Change move(std::string from, std::string to);
Change move_leaf(std::string from, std::string to);
/// model.layers.N.self_attn.<leaf> of both layers.
Change each_layer(std::string leaf, fixture::Tensor tensor);
Change scalar(std::string tensor, float value);
/// The first element of an F16, BF16 or F32 tensor.
Change first_value(std::string tensor, float value);
Change first_byte(std::string tensor, int value);
/// Every tensor of module `from` again under `to`.
Change copied(std::string from, std::string to);
Change reshape(std::string tensor, std::vector<int64_t> shape);
/// Says another type of every tensor whose name ends so.
Change retype(std::string suffix, std::string dtype);
Change index(std::string tensor, std::vector<uint32_t> words);

// Keys of the quantisation block.
Change with(std::string key, Json value);
Change with_json(std::string key, std::string_view json);
/// A key of the only config group, or of its "weights".
Change with_group(std::string key, Json value);
Change with_weights(std::string key, Json value);

// Modules.
/// Projections whose name holds `part` are plain again.
Change plain(std::string part);
Change quantised(fixture::QuantRecipe recipe, std::string module);
/// A module of [n, k] beside the model's.
Change added(fixture::QuantRecipe recipe, std::string module, int64_t n, int64_t k);
/// q, k and v of every layer as one tensor on disk.
Change fused(fixture::QuantRecipe recipe);
/// A bias of zeros for every projection.
Change zero_biases();

}  // namespace lamina::e2e
