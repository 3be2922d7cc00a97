#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace lamina {

namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kLookedFor = "model.safetensors, or model.safetensors.index.json with its shards";

bool is_safetensors(std::string_view name) { return name.ends_with(".safetensors"); }
bool is_other_weights(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".gguf");
}

/// "a, b, c and 5 more"
std::string list_some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  if (names.size() <= kShown) return join(names, ", ");
  return cat(join({names.begin(), names.begin() + kShown}, ", "), " and ", names.size() - kShown, " more");
}

/// Which files are read. `index` maps tensors to files when there is an index file.
struct FileChoice {
  std::vector<std::string> names;
  std::map<std::string, std::string> index;
  bool has_index = false;
};

Result<FileChoice> read_index(const std::string& folder) {
  const std::string path = cat(folder, "/", kIndexName);
  LAMINA_ASSIGN(const Json root, read_json_object(path));
  LAMINA_ASSIGN(const std::optional<ConfigReader> map, ConfigReader(root, path).object({"weight_map"}));
  if (!map) return error(path, ": required key \"weight_map\" is missing");
  FileChoice out;
  out.has_index = true;
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->json().as_object()) {
    if (!file.is_string() || !is_safetensors(file.as_string()) || file.as_string().find('/') != std::string::npos) {
      return map->fault(tensor, cat("is ", brief(file), ", wanted the name of a .safetensors file in the same folder"));
    }
    out.index.emplace(tensor, file.as_string());
    names.insert(file.as_string());
  }
  if (names.empty()) return error(path, ": \"weight_map\" is empty");
  out.names.assign(names.begin(), names.end());
  return out;
}

/// "model-00002-of-00005.safetensors", one of several.
bool is_shard_name(std::string_view name) {
  return name.find("-of-") != std::string_view::npos && !name.ends_with("-of-00001.safetensors");
}

Result<FileChoice> choose_files(const std::string& folder, const std::vector<std::string>& entries) {
  const auto present = [&](std::string_view name) { return std::ranges::find(entries, name) != entries.end(); };
  if (present(kIndexName)) return read_index(folder);
  if (present(kSingleName)) return FileChoice{{std::string(kSingleName)}, {}, false};
  std::vector<std::string> candidates, others;
  for (const std::string& name : entries) {
    if (is_safetensors(name)) candidates.push_back(name);
    if (is_other_weights(name)) others.push_back(name);
  }
  if (candidates.size() == 1 && !is_shard_name(candidates.front())) return FileChoice{candidates, {}, false};
  if (!candidates.empty()) {
    return error(folder, " has ", list_some(candidates), " but no ", kIndexName, " that says which to read (incomplete download?)");
  }
  if (!others.empty()) return error(folder, " has only ", list_some(others), "; only safetensors are read: ", kLookedFor);
  return error(folder, " has no weights; looked for ", kLookedFor);
}

Status check_present(const std::string& folder, const FileChoice& choice) {
  std::vector<std::string> missing;
  for (const std::string& name : choice.names) {
    if (!file_exists(cat(folder, "/", name))) missing.push_back(name);
  }
  if (missing.empty()) return {};
  return error(folder, " lacks ", missing.size(), " of ", choice.names.size(), " files that ", kIndexName, " names: ", join(missing, ", "),
               " (incomplete download?)");
}

/// The index and the headers must name the same tensors in the same files. Each "tensor" in a fault is "name (in file)".
Status check_index(const std::string& folder, const FileChoice& choice, const std::vector<TensorInfo>& tensors) {
  std::map<std::string_view, std::vector<int>> files_of;
  for (const TensorInfo& tensor : tensors) files_of[tensor.name].push_back(tensor.file);
  std::vector<std::string> faults;
  for (const auto& [name, file] : choice.index) {
    const auto found = files_of.find(name);
    if (found == files_of.end()) {
      faults.push_back(cat(name, " is not in ", file));
    } else if (choice.names[static_cast<size_t>(found->second.front())] != file) {
      faults.push_back(cat(name, " is in ", choice.names[static_cast<size_t>(found->second.front())], ", not in ", file));
    }
  }
  for (const TensorInfo& tensor : tensors) {
    const std::string& file = choice.names[static_cast<size_t>(tensor.file)];
    const auto found = choice.index.find(tensor.name);
    if (found == choice.index.end()) faults.push_back(cat(tensor.name, " of ", file, " is not named"));
  }
  if (faults.empty()) return {};
  return error(folder, "/", kIndexName, " does not fit its files (stale index?): ", list_some(faults));
}

Status check_unique(const FileChoice& choice, const std::vector<TensorInfo>& tensors) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    const TensorInfo& a = tensors[i - 1];
    const TensorInfo& b = tensors[i];
    if (a.name != b.name) continue;
    return error("tensor \"", a.name, "\" is in two files: ", choice.names[static_cast<size_t>(a.file)], " and ",
                 choice.names[static_cast<size_t>(b.file)]);
  }
  return {};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  if (!is_directory(folder)) return error(folder, " is not a folder");
  LAMINA_ASSIGN(const std::vector<std::string> entries, list_folder(folder));
  LAMINA_ASSIGN(const FileChoice choice, choose_files(folder, entries));
  LAMINA_TRY(check_present(folder, choice));
  Checkpoint out;
  for (const std::string& name : choice.names) {
    const std::string path = cat(folder, "/", name);
    LAMINA_ASSIGN(MappedFile file, MappedFile::open(path));
    LAMINA_ASSIGN(std::vector<TensorInfo> tensors, parse_safetensors(file.bytes(), path));
    for (TensorInfo& tensor : tensors) {
      tensor.file = static_cast<int>(out.files_.size());
      out.tensors_.push_back(std::move(tensor));
    }
    out.paths_.push_back(path);
    out.files_.push_back(std::move(file));
  }
  std::ranges::stable_sort(out.tensors_, {}, &TensorInfo::name);
  LAMINA_TRY(check_unique(choice, out.tensors_));
  if (choice.has_index) LAMINA_TRY(check_index(folder, choice, out.tensors_));
  for (const std::string& name : entries) {
    const bool weights = is_safetensors(name) || is_other_weights(name);
    if (weights && std::ranges::find(choice.names, name) == choice.names.end()) out.ignored_.push_back(name);
  }
  if (!out.ignored_.empty()) log_info(cat("ignored weight files of ", folder, ": ", list_some(out.ignored_)));
  return out;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, [](const TensorInfo& t) -> std::string_view { return t.name; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

std::span<const uint8_t> Checkpoint::data(const TensorInfo& tensor) const {
  return file(tensor.file).bytes().subspan(tensor.begin, tensor.bytes());
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const TensorInfo& tensor : tensors_) total += tensor.bytes();
  return total;
}

DType resolve_dtype(const ModelConfig& config, const Checkpoint* checkpoint) {
  if (config.dtype) return *config.dtype;
  if (checkpoint == nullptr) return DType::kF32;
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    if (tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16) return tensor.dtype;
  }
  return DType::kF32;
}

}  // namespace lamina
