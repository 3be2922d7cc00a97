#include "layers/context.h"

namespace lamina {

const ParallelGroup& BuildContext::group(std::string_view name) {
  static const ParallelGroup kAlone{"", "", 1, 0, nullptr};
  Result<const ParallelGroup*> found = groups_.find(name);
  if (found.ok()) return **found;
  fail(found.error());
  return kAlone;
}

void BuildContext::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

Status BuildContext::status() const {
  if (error_) return *error_;
  return {};
}

}  // namespace lamina
