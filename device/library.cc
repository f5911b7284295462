// See library.h.
#include "device/library.h"

#include <link.h>
#include <stdlib.h>

namespace spillway::device {

DriverLibrary::DriverLibrary(const std::string& soname, const std::string& folder) {
  if (!folder.empty() && folder.front() != '/') {
    error_ = folder + " is no absolute path";
    return;
  }
  handle_ = dlopen((folder.empty() ? soname : folder + "/" + soname).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* error = dlerror();
    error_ = error == nullptr ? soname + " cannot be opened" : error;
    return;
  }
  const link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return;
  path_ = map->l_name;
  if (char* resolved = realpath(map->l_name, nullptr)) {
    path_ = resolved;
    free(resolved);
  }
}

}  // namespace spillway::device
