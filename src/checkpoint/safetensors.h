#pragma once
// Safetensors files and checkpoint folders. Opening maps the files and checks every header; nothing is copied and nothing is believed
// about a length before it is compared with the size of the file.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace lamina {

struct ModelConfig;

/// A tensor of a file, as its header declares it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row-major; empty: a scalar
  int file = 0;                // Checkpoint::file_path(file)
  uint64_t begin = 0;          // bytes from the start of the file; not necessarily aligned
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
  int64_t elements() const;
};

/// Reads the header of one safetensors file, sorted by name: 8 bytes of little-endian header length (at most 100 MB), JSON, then the
/// tensors back to back up to the end of the file. Errors name `path` and the tensor: a file shorter or longer than its header says (both
/// sizes), a cut header, a git-lfs pointer, an unknown dtype, a bad shape, a range that is not shape * dtype, overlaps, holes, duplicates.
Result<std::vector<TensorInfo>> parse_safetensors(std::span<const uint8_t> bytes, std::string_view path);

/// The weights of a checkpoint folder: its files stay mapped as long as this lives. Reading is thread-safe.
class Checkpoint {
 public:
  /// Which files: those that model.safetensors.index.json names; without it model.safetensors; without that the only *.safetensors of the
  /// folder. Other weight files are ignored, with one log line. Errors: missing shards (all of them), an index that disagrees with the
  /// headers, files that are no valid safetensors, a folder without safetensors (says what was found and what is looked for).
  static Result<Checkpoint> open(const std::string& folder);

  /// Sorted by name.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  /// nullptr when there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// The bytes of a tensor of this checkpoint, row-major, little-endian, possibly unaligned.
  std::span<const uint8_t> data(const TensorInfo& tensor) const;

  const MappedFile& file(int index) const { return files_[static_cast<size_t>(index)]; }
  const std::string& file_path(int index) const { return paths_[static_cast<size_t>(index)]; }
  int file_count() const { return static_cast<int>(files_.size()); }
  /// Sum of the tensors' bytes.
  uint64_t total_bytes() const;
  /// Names of weight files of the folder that are not read.
  const std::vector<std::string>& ignored_files() const { return ignored_; }

 private:
  Checkpoint() = default;
  std::vector<std::string> paths_;
  std::vector<MappedFile> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::string> ignored_;
};

/// The element type a checkpoint asks for: the config's dtype, then torch_dtype, then that of the first f32, f16 or bf16 tensor by name;
/// kF32 when there is none. `checkpoint` may be null (a config alone).
DType resolve_dtype(const ModelConfig& config, const Checkpoint* checkpoint);

}  // namespace lamina
