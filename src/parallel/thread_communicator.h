#pragma once
// Groups whose ranks are threads of this process.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator.h"

namespace lamina {

/// As make_thread_communicators, one for each of `members` (world ranks in order; messages name them) of the group `name`.
std::vector<std::unique_ptr<Communicator>> make_thread_group(std::string_view name, const std::vector<int>& members, RankFault& fault,
                                                             const CommunicatorOptions& options);

}  // namespace lamina
