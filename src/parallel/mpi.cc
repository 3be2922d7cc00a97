#include "parallel/mpi.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "base/strings.h"

namespace lamina {
namespace {

constexpr const char* kLibrary = "liblamina_mpi.so";
constexpr const char* kFactory = "lamina_open_process_world";
using Factory = void (*)(RankFault&, const CommunicatorOptions&, Result<std::unique_ptr<ProcessWorld>>&);

std::string library_path() {
  if (const char* named = std::getenv("LAMINA_MPI_LIBRARY"); named != nullptr && *named != '\0') return named;
  std::error_code failure;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? kLibrary : (program.parent_path() / kLibrary).string();
}

}  // namespace

bool under_mpirun() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size != nullptr && std::atoi(size) > 1;
}

bool is_worker_process() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return under_mpirun() && rank != nullptr && std::string_view(rank) != "0";
}

Result<std::unique_ptr<ProcessWorld>> open_process_world(RankFault& fault, const CommunicatorOptions& options) {
  const std::string path = library_path();
  // Never closed: MPI keeps threads and handlers in it. Global, because MPI's own plugins look up its symbols.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* failure = library == nullptr ? dlerror() : nullptr;
  if (failure != nullptr) {
    return error("started by mpirun, but ", path, " cannot be loaded: ", failure,
                 ". It is built when the Debian package libopenmpi-dev is installed, and needs openmpi-bin to run");
  }
  const auto factory = reinterpret_cast<Factory>(dlsym(library, kFactory));
  if (factory == nullptr) return error(path, " is not this program's library: it has no ", kFactory);
  Result<std::unique_ptr<ProcessWorld>> world = error("MPI did not start");
  factory(fault, options, world);
  return world;
}

}  // namespace lamina
