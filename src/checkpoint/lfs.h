#pragma once
// Files that git left as pointers because git-lfs did not run.

#include <string_view>

#include "base/result.h"

namespace lamina {

/// An error naming `path` when `bytes` begin like a git-lfs pointer.
Status refuse_lfs_pointer(std::string_view bytes, std::string_view path);

}  // namespace lamina
