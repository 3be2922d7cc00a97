#pragma once
// Makes checkpoint folders for tests.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "tensor/dtype.h"

namespace lamina::fixture {

/// A folder that is deleted with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lamina-test-XXXXXX").string();
    LAMINA_CHECK(mkdtemp(name.data()) != nullptr, "cannot make a temporary folder");
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return cat(path_, "/", name); }
  void write(std::string_view name, std::string_view bytes) const {
    std::ofstream out(file(name), std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::string path_;
};

struct Tensor {
  std::string dtype;  // the safetensors spelling: "F32", "BF16", ...
  std::vector<int64_t> shape;
  std::string bytes;  // row-major, little-endian
};
using Tensors = std::map<std::string, Tensor>;

/// A tensor of `dtype` (kF32, kBF16 or kF16) that holds `values` rounded to it.
inline Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const float> values) {
  Tensor out{dtype_name(dtype), std::move(shape), {}};
  for (float value : values) {
    if (dtype == DType::kF32) {
      out.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      const uint16_t half = dtype == DType::kBF16 ? f32_to_bf16(value) : f32_to_f16(value);
      out.bytes.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
  }
  return out;
}
inline Tensor f32_tensor(std::vector<int64_t> shape, std::span<const float> values) {
  return make_tensor(DType::kF32, std::move(shape), values);
}

/// A file with this header text in front of `data`, whatever they say.
inline std::string raw_safetensors(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  return out.append(header).append(data);
}

/// The bytes of a safetensors file, tensors in order of their names.
inline std::string safetensors_file(const Tensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    Json shape = Json::array();
    for (int64_t dim : tensor.shape) shape.push(dim);
    Json entry = Json::object();
    entry.set("dtype", tensor.dtype);
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", Json(Json::Array{Json(data.size()), Json(data.size() + tensor.bytes.size())}));
    header.set(name, std::move(entry));
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return raw_safetensors(text, data);
}

/// "model-00002-of-00003.safetensors" (shard counts from 1).
inline std::string shard_name(int shard, int shards) {
  const auto five = [](int n) { return std::string(5 - std::to_string(n).size(), '0') + std::to_string(n); };
  return cat("model-", five(shard), "-of-", five(shards), ".safetensors");
}

/// Writes model.safetensors, or `shards` > 1 files (tensors dealt out by name, in runs) and their index.
inline void write_checkpoint(const TempFolder& folder, const Tensors& tensors, int shards = 1) {
  if (shards == 1) return folder.write("model.safetensors", safetensors_file(tensors));
  std::vector<Tensors> parts(static_cast<size_t>(shards));
  Json weight_map = Json::object();
  size_t i = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t shard = i++ * parts.size() / tensors.size();
    parts[shard].emplace(name, tensor);
    weight_map.set(name, shard_name(static_cast<int>(shard) + 1, shards));
  }
  for (int s = 0; s < shards; ++s) folder.write(shard_name(s + 1, shards), safetensors_file(parts[static_cast<size_t>(s)]));
  Json index = Json::object();
  index.set("weight_map", std::move(weight_map));
  folder.write("model.safetensors.index.json", index.dump(2));
}

}  // namespace lamina::fixture
