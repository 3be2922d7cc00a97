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

/// A rectangle of a source tensor, cut to this rank: `rows` rows of `cols` elements, `stride` elements apart. For a plain parameter these
/// are rows and columns of the matrix; what else a tensor can be its Param::disk says.
struct SourceRows {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  // Which elements of the matrix they are about, counted in the source tensor: `count` rows from first_row on, all local columns from
  // first_col on. The first unit may begin before them.
  int part = 0;  // of the parameter
  int64_t count = 0;
  int64_t first_row = 0;
  int64_t first_col = 0;
  std::string_view tensor;  // its name
};

/// What `--load-format dummy` puts into a tensor that is no plain one: (random & keep) | set, for each 32 bits of a row.
struct DummyBits {
  DType dtype = DType::kI32;
  uint32_t keep = 0;
  uint32_t set = 0;
  bool plain = false;  // instead: what a plain tensor of that name gets, in bf16
  int period = 32;     // bits after which `set` repeats along a row, at most 32: 3 for codes of 3 bits, which go over the words' edges

  /// `set` for 32-bit word `word` of a row.
  uint32_t set_of(int64_t word) const {
    if (period == 32) return set;
    uint32_t out = 0;
    for (int64_t bit = 0; bit < 32; ++bit) out |= (set >> ((word * 32 + bit) % period) & 1U) << bit;
    return out;
  }
};

/// A type in the words of ParamStore::describe: "bf16", "f8_e4m3".
std::string dtype_word(DType dtype);
/// "bf16"; of mixed types "bf16 and f16".
std::string dtype_words(const std::vector<DType>& dtypes);

/// Where a parameter's values end up; formats and layers choose it. Two phases: plan (no memory), then fill.
class ParamStore {
 public:
  virtual ~ParamStore() = default;
  /// Fixes the storage type from the source tensors' types (none: an optional parameter that the checkpoint lacks). No memory yet. An error
  /// names `param` and the type it cannot take.
  virtual Status plan(const std::vector<DType>& sources, std::string_view param) = 0;
  /// Bytes of memory it needs; after plan().
  virtual size_t bytes() const = 0;
  virtual DType storage_dtype() const = 0;
  /// What it keeps and of what, in words for whoever reads the plan: "bf16 from f32", "gptq 4 bit, groups of 128". After plan().
  virtual std::string describe() const { return dtype_word(storage_dtype()); }
  /// Gives it its memory: bytes() zeros, 64-byte aligned, that outlive the store.
  virtual void bind(uint8_t* memory) = 0;
  /// Rows per unit that one thread must fill alone (32 for panels, else 1).
  virtual int64_t row_grain() const = 0;
  /// Takes what `source` says about local rows from `row` on. Concurrent calls touch different grains.
  virtual void put(int64_t row, const SourceRows& source) = 0;
  /// Whether it is filled and finished before the stores of which this is false: they read what it holds (g_idx).
  virtual bool goes_first() const { return false; }
  /// After the last put. An error names the tensor and the value that cannot be right.
  virtual Status finish() { return {}; }
  /// Whether put() wants whole rows of the tensors: all columns from 0 on, though first_col and the parameter's share say which are its
  /// own.
  virtual bool reads_whole_rows() const { return false; }
  virtual DummyBits dummy() const { return {}; }
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
  std::vector<DiskDim> disk = {};         // of the tensor on disk, at most two; empty: [rows, cols], or [rows] for a vector
  std::vector<std::string> aliases = {};  // further spellings of the last component of `name`
  bool optional = false;                  // a checkpoint may lack it, all of its parts
  std::string set = {};                   // optional parameters of one set are all there or all absent; empty: each by itself

  bool is_vector() const { return cols.units == 0; }
  bool is_plain() const { return disk.empty(); }
  /// Dimensions of the tensor on disk.
  std::vector<DiskDim> dims() const;
  /// On-disk shape of a part, or of the fused tensor when part is -1.
  std::vector<int64_t> on_disk_shape(int part) const;
  /// Whether a tensor of this shape can be the part: dimensions of fixed extent 1 may be left out.
  bool fits(const std::vector<int64_t>& shape, int part) const;
  /// Elements on disk over all parts (what the published parameter total counts).
  int64_t on_disk_elements() const;
  /// Local rows (padding included) and columns; of a packed parameter what they take on disk, all parts together.
  Result<std::vector<int64_t>> local_shape() const;
  Result<std::vector<int64_t>> global_shape() const;
  /// The tensor name of a part on disk: "model.layers.0.self_attn.q_proj.weight".
  std::string part_name(int part) const;
  /// `tensor` with its last component replaced.
  static std::string with_leaf(std::string_view tensor, std::string_view leaf);
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

  /// A layer that cannot be made as the config says. Its audit lists it among the faults of the checkpoint.
  void add_fault(std::string fault) { faults_.push_back(std::move(fault)); }
  const std::vector<std::string>& faults() const { return faults_; }

  /// Bytes reserve() takes; after plan() of every store.
  size_t bytes() const;
  /// Reserves the block and binds every store to its part, in declaration order. An error names the size when the machine refuses it.
  Status reserve();

 private:
  std::vector<std::unique_ptr<Param>> params_;
  std::vector<std::string> faults_;
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
  std::string describe() const override { return "f32 vector"; }
  void bind(uint8_t* memory) override { data_ = reinterpret_cast<float*>(memory); }
  int64_t row_grain() const override { return 1; }
  void put(int64_t row, const SourceRows& source) override;

 private:
  int64_t size_ = 0;
  float* data_ = nullptr;
};

}  // namespace lamina
