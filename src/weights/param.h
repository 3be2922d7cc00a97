#pragma once
// A parameter is declared once; loader, shard arithmetic, memory report, `inspect` and audit walk the same list.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "weights/shard.h"

namespace lamina {

/// Rows of a source tensor, cut to this rank's columns: `rows` rows of `cols` elements, `stride` elements apart.
struct SourceRows {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
};

/// Where a parameter's values end up; formats and layers choose it. Two phases: plan (no memory), then fill.
class ParamStore {
 public:
  virtual ~ParamStore() = default;
  /// Fixes the storage type from the source tensors' types. No memory yet. An error names `param` and the type it cannot take.
  virtual Status plan(const std::vector<DType>& sources, std::string_view param) = 0;
  /// Bytes of memory it needs; after plan().
  virtual size_t bytes() const = 0;
  virtual DType storage_dtype() const = 0;
  /// Gives it its memory: bytes() zeros, 64-byte aligned, that outlive the store.
  virtual void bind(uint8_t* memory) = 0;
  /// Rows per unit that one thread must fill alone (32 for panels, else 1).
  virtual int64_t row_grain() const = 0;
  /// Copies source rows to local rows [row, row + source.rows). Concurrent calls touch different grains.
  virtual void put(int64_t row, const SourceRows& source) = 0;
};

/// One source of a parameter along dim 0: q_proj of qkv_proj. A plain parameter has one part whose `module` is empty.
struct ParamPart {
  std::string module;  // the last module component on disk in place of the owner's: "q_proj"
  ShardDim rows;
};

struct Param {
  std::string name;              // HF name of the fused form: "model.layers.0.self_attn.qkv_proj.weight"
  std::vector<ParamPart> parts;  // in order of their local rows
  ShardDim cols;                 // dim 1; units == 0 for a vector
  std::unique_ptr<ParamStore> store;

  bool is_vector() const { return cols.units == 0; }
  /// On-disk shape of a part, or of the fused tensor when part is -1.
  std::vector<int64_t> on_disk_shape(int part) const;
  /// Elements on disk over all parts (what the published parameter total counts).
  int64_t on_disk_elements() const;
  /// Local rows (padding included) and columns.
  Result<std::vector<int64_t>> local_shape() const;
  Result<std::vector<int64_t>> global_shape() const;
  /// The tensor name of a part on disk: "model.layers.0.self_attn.q_proj.weight".
  std::string part_name(int part) const;
};

/// Owns every parameter of a model, in declaration order, and the one block of memory they lie in. Layers keep pointers to stores; the list
/// outlives them.
class ParamList {
 public:
  /// CHECK: the name is new, and the parameter has parts and a store.
  Param& add(Param param);
  const std::vector<std::unique_ptr<Param>>& all() const { return params_; }
  /// By the HF name of the fused form; nullptr when there is none.
  const Param* find(std::string_view name) const;

  /// Bytes reserve() takes; after plan() of every store.
  size_t bytes() const;
  /// Reserves the block and binds every store to its part, in declaration order. An error names the size when the machine refuses it.
  Status reserve();

 private:
  std::vector<std::unique_ptr<Param>> params_;
  Buffer memory_;
  std::unordered_map<std::string, const Param*> by_name_;
};

/// F32, F16 and BF16 pass; the error names `param` and the first other type.
Status check_float_sources(const std::vector<DType>& sources, std::string_view param);

/// A vector kept as f32 (norm weights, biases).
class VectorStore final : public ParamStore {
 public:
  explicit VectorStore(int64_t local_size) : size_(local_size) {}
  /// nullptr until bind().
  const float* data() const { return data_; }
  Status plan(const std::vector<DType>& sources, std::string_view param) override;
  size_t bytes() const override;
  DType storage_dtype() const override { return DType::kF32; }
  void bind(uint8_t* memory) override { data_ = reinterpret_cast<float*>(memory); }
  int64_t row_grain() const override { return 1; }
  void put(int64_t row, const SourceRows& source) override;

 private:
  int64_t size_ = 0;
  float* data_ = nullptr;
};

}  // namespace lamina
