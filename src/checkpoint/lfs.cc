#include "checkpoint/lfs.h"

#include "base/strings.h"

namespace lamina {

Status refuse_lfs_pointer(std::string_view bytes, std::string_view path) {
  if (!bytes.starts_with("version https://git-lfs.github.com/spec/")) return {};
  return error(path, " is a git-lfs pointer, not the file itself; fetch it with \"git lfs pull\"");
}

}  // namespace lamina
