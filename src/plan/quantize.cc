#include "plan/quantize.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/quant_block.h"
#include "checkpoint/quant_presets.h"
#include "weights/export.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";

Status failed(std::string_view action, const std::string& path, const std::error_code& fault) {
  if (!fault) return {};
  return error("cannot ", action, " ", path, ": ", std::string_view(fault.message()));
}

bool holds_weights(std::string_view name) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack",
                                                                     ".onnx", ".ot", ".safetensors.index.json", ".bin.index.json"},
                             [&](std::string_view end) { return name.ends_with(end); });
}

/// The folder that is written. Without keep() all that is named in it goes away again.
class OutFolder {
 public:
  static Result<OutFolder> create(const std::string& path, const std::string& model) {
    std::error_code fault;
    if (fs::equivalent(path, model, fault)) return error(path, " is the checkpoint itself: the output needs a folder of its own");
    OutFolder out(path);
    out.made_ = fs::create_directory(path, fault);
    LAMINA_TRY(failed("create folder", path, fault));
    LAMINA_ASSIGN(const std::vector<std::string> entries, list_folder(path));
    if (!entries.empty()) return error(path, " is not empty (", entries.front(), "): the output needs a folder of its own");
    return out;
  }
  OutFolder(OutFolder&& other) noexcept = default;
  OutFolder& operator=(OutFolder&&) = delete;
  ~OutFolder() {
    std::error_code ignored;
    for (const std::string& name : names_) fs::remove(file(name), ignored);
    if (made_ && !path_.empty()) fs::remove(path_, ignored);  // an empty one only
  }

  std::string file(std::string_view name) const { return cat(path_, "/", name); }
  void add(const std::string& name) { names_.push_back(name); }
  void keep() {
    names_.clear();
    made_ = false;
  }

 private:
  explicit OutFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
  bool made_ = false;
  std::vector<std::string> names_;
};

/// What becomes of the source's tensors.
struct Sorted {
  std::vector<const TensorInfo*> in_order;  // of their files
  std::set<const TensorInfo*> quantised;
  std::set<const TensorInfo*> left_out;    // the head that repeats an embedding which is quantised
  std::vector<std::string> plain_modules;  // with matrices, ignored or of no layer of the model, by name
};

Sorted sort_tensors(const ModelPlan& plan) {
  const Checkpoint& checkpoint = *plan.source->checkpoint;
  Sorted out;
  for (const ParamLoad& load : plan.load.loads) {
    if (load.param->is_plain() || !load.param->name.ends_with(".weight")) continue;
    for (const LoadPiece& piece : load.pieces) out.quantised.insert(piece.tensor);
  }
  const NameMap& names = plan.built.model->names();
  const bool embedding = std::ranges::any_of(
      out.quantised, [&](const TensorInfo* tensor) { return names.rename(tensor->name) == "model.embed_tokens.weight"; });
  for (const AuditReport::Skipped& skipped : plan.source->report.skipped) {
    const TensorInfo* const tensor = checkpoint.find(skipped.tensor);
    if (embedding && names.rename(tensor->name).starts_with("lm_head.")) out.left_out.insert(tensor);
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    out.in_order.push_back(&tensor);
    if (out.quantised.contains(&tensor) || out.left_out.contains(&tensor)) continue;
    if (tensor.shape.size() == 2 && tensor.name.ends_with(".weight")) {
      out.plain_modules.push_back(tensor.name.substr(0, tensor.name.rfind('.')));
    }
  }
  std::ranges::sort(out.plain_modules);
  std::ranges::sort(out.in_order, {}, [](const TensorInfo* t) { return std::pair(t->file, t->begin); });
  return out;
}

/// The modules that stay plain are named one by one, as the files name them: patterns mean different things to different readers.
Result<Json> make_config(const ModelPlan& plan, const QuantisePreset& preset, const Sorted& tensors, const std::string& path) {
  LAMINA_ASSIGN(Json config, read_json_object(path));
  // Without it the type is that of the first float tensor by name, which may be one of scales now.
  if (!plan.source->config.dtype) config.set("torch_dtype", torch_dtype_name(plan.source->dtype));
  config.set("quantization_config", compressed_tensors_block(preset.scheme, tensors.plain_modules));
  return config;
}

/// Everything but weights, config.json and hidden files; subfolders are told.
Status copy_files(const std::string& model, OutFolder& out, QuantizeReport& report) {
  LAMINA_ASSIGN(const std::vector<std::string> names, list_folder(model));
  for (const std::string& name : names) {
    const std::string path = cat(model, "/", name);
    if (name.starts_with('.') || name == kConfig || holds_weights(name)) continue;
    if (is_directory(path)) report.left_out.push_back(name + "/");
    std::error_code fault;
    if (!fs::is_regular_file(path, fault)) continue;
    out.add(name);
    fs::copy_file(path, out.file(name), fault);
    LAMINA_TRY(failed("copy", path, fault));
  }
  return {};
}

/// A tensor of the source may have the name of a scale.
Status check_names(const std::vector<NewTensor>& tensors) {
  std::set<std::string_view> names;
  for (const NewTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) return error("tensor ", tensor.name, ": its name is needed for what another one becomes");
  }
  return {};
}

Status refuse_quantised(const std::string& model) {
  LAMINA_ASSIGN(const ModelConfig config, load_model_config(model));
  LAMINA_ASSIGN(const std::optional<QuantConfig> quant, load_quant_config(config, model));
  if (!quant) return {};
  return error(quant->source(), ": the checkpoint is quantised already (", quant->method(), "); a plain one is needed");
}

}  // namespace

Result<QuantizeReport> quantize_checkpoint(const QuantizeOptions& options, ThreadTeam& team, const LoadProgress& progress) {
  const std::string& model = options.plan.model;
  LAMINA_TRY(refuse_quantised(model));
  LAMINA_ASSIGN(const QuantisePreset preset, quantise_preset(quantise_request(options.plan)));
  LAMINA_ASSIGN(const ModelPlan plan, make_model_plan(options.plan, true));
  const Checkpoint& checkpoint = *plan.source->checkpoint;
  const Sorted tensors = sort_tensors(plan);
  if (tensors.quantised.empty()) return error(model, ": every layer is ignored, so that nothing is left to quantise");
  TensorExport exported(checkpoint, preset.scheme, *plan.source->kernels);
  QuantizeReport report;
  for (const TensorInfo* tensor : tensors.in_order) {
    if (tensors.left_out.contains(tensor)) {
      report.left_out.push_back(tensor->name);
    } else if (tensors.quantised.contains(tensor)) {
      LAMINA_TRY(exported.quantise(*tensor));
      ++report.quantised;
    } else {
      exported.copy(*tensor);
      ++report.copied;
    }
  }
  LAMINA_TRY(check_names(exported.tensors()));
  LAMINA_ASSIGN(const Json config, make_config(plan, preset, tensors, cat(model, "/", kConfig)));

  LAMINA_ASSIGN(OutFolder out, OutFolder::create(options.out, model));
  LAMINA_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::create(options.out, exported.tensors(), options.max_shard_bytes));
  LAMINA_TRY(exported.write(writer, team, progress));
  for (const std::string& name : writer.file_names()) out.add(name);
  LAMINA_TRY(writer.finish());
  LAMINA_TRY(copy_files(model, out, report));
  LAMINA_TRY(write_file(out.file(kConfig), config.dump(2) + "\n"));
  out.keep();
  report.bytes_before = checkpoint.total_bytes();
  report.bytes_after = writer.tensor_bytes();
  return report;
}

}  // namespace lamina
