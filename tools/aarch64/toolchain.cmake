# Builds for AArch64 on an x86-64 Debian 12: its cross compiler, the libraries of fetch_libraries.sh, qemu-user to run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/usr/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,--disable-new-dtags)  # a run path that also serves the libraries' own libraries

# Libraries come from the unpacked packages alone; what is headers only serves any processor and comes from the installed ones.
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64-root)
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
