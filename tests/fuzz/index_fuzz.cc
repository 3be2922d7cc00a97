// model.safetensors.index.json before two sound shards: Checkpoint::open().
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "checkpoint/safetensors.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/support/safetensors_writer.h"

namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

/// In memory: a file is written for every input. The fuzzer ends without destructors, so the folder goes by atexit().
const std::string& checkpoint_folder() {
  static const std::string* folder = [] {
    setenv("TMPDIR", "/dev/shm", 1);
    static lamina::fixture::TempFolder* made = new lamina::fixture::TempFolder;
    std::atexit([] { std::filesystem::remove_all(made->path()); });
    const float values[4] = {1, 2, 3, 4};
    const auto tensor = lamina::fixture::f32_tensor({2, 2}, values);
    lamina::fixture::write_checkpoint(*made, {{"a", tensor}, {"b.weight", tensor}, {"c", tensor}, {"d", tensor}}, 2);
    return &made->path();
  }();
  return *folder;
}

}  // namespace

LAMINA_FUZZ_JSON_INPUT()

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int file = ::open((checkpoint_folder() + "/" + kIndex).c_str(), O_WRONLY | O_TRUNC | O_CREAT, 0600);
  LAMINA_CHECK(file >= 0 && ::write(file, data, size) == static_cast<ssize_t>(size), "cannot write the index");
  ::close(file);
  const auto checkpoint = lamina::Checkpoint::open(checkpoint_folder());
  if (checkpoint.ok()) LAMINA_CHECK(checkpoint->tensors().size() >= 2, "an index that fits names whole files");
  return 0;
}
